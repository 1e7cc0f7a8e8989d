// Experiments: policies that share the traffic, their differences over time, and how one ends.

import { api, part } from "../api.js";
import { code, empty, faint, forOperators, h, plainlist, problem, replace, section, small, svg, wide } from "../parts.js";
import { complain, may, toast } from "../shell.js";
import { number, plural, time } from "../text.js";

const STATES = { running: "running", stopped: "stopped", promoted: "promoted", rolled_back: "rolled back" };
const METRICS = { uncorrected: "not corrected", answered: "answered", unclarified: "not asked back" };

const points = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(100 * value).toFixed(1)}`;
const tag = (state) => h("span", { class: `tag ${state === "running" ? "serves" : state === "promoted" ? "draft" : ""}` }, STATES[state]);
const policy = (arm) => (arm.policy ? code(arm.policy) : "the app's own");

// A difference with its interval, as it was at each look. The middle line is no difference.
function overTime(each, control) {
  const found = each.over_time, wide = innerWidth < 760 ? 480 : 1060, high = 230, left = 72, foot = 30;
  if (found.length < 2) return faint("The interval is drawn from the second look on, when enough units are ripe.");
  // Early intervals are wide, and are cut off: the newest one has to be readable.
  const now = found.at(-1), first = found[0].units, last = now.units, most = Math.min(1, Math.max(0.02, 2.5 * Math.max(Math.abs(now.low), Math.abs(now.high))));
  const x = (units) => left + ((units - first) / (last - first || 1)) * (wide - left - 6), y = (value) => (high - foot) / 2 - (Math.max(-most, Math.min(most, value)) / most) * ((high - foot) / 2 - 10);
  const line = (key) => found.map((one) => `${x(one.units).toFixed(1)},${y(one[key]).toFixed(1)}`);
  const mark = (value) => [svg("line", { x1: left, x2: wide - 6, y1: y(value), y2: y(value), class: value ? "" : "zero" }), svg("text", { x: left - 6, y: y(value) + 5, "text-anchor": "end" }, points(value))];
  const said = `${each.arm} less ${control}: ${points(now.estimate)} points, between ${points(now.low)} and ${points(now.high)}, after ${plural(last, "unit")}`;
  return h("figure", { class: "interval" }, svg("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": said },
    svg("polygon", { points: [...line("high"), ...line("low").reverse()].join(" ") }), mark(most), mark(0), mark(-most), svg("polyline", { points: line("estimate").join(" ") }),
    svg("text", { x: left, y: high - 4 }, plural(first, "unit")), svg("text", { x: wide - 6, y: high - 4, "text-anchor": "end" }, plural(last, "unit"))),
  h("figcaption", null, said));
}

function verdict(each) {
  if (each.harmful_after !== null) return h("b", { class: "wrong" }, "surely worse, beyond the bound");
  if (each.better_after !== null) return h("b", { class: "right" }, `surely better, after ${plural(each.better_after, "unit")}`);
  if (each.worse_after !== null) return h("b", { class: "wrong" }, `surely worse, after ${plural(each.worse_after, "unit")}`);
  return each.estimate === null ? "too few ripe units" : "not sure yet";
}

const tableOf = (names, rows) => h("div", { class: "tablewrap whole", tabindex: 0 }, h("table", null,
  h("thead", null, h("tr", null, names.map(([name, kind]) => h("th", { class: kind || "" }, name)))),
  h("tbody", null, rows.map((row) => h("tr", null, row.map((cell, i) => h("td", { class: names[i][1] || "" }, cell)))))));

function analysis(found) {
  const control = found.arms[0].arm, { paired } = found, metrics = Object.keys(METRICS);
  const primary = found.comparisons.filter((each) => each.metric === found.metric), units = found.arms.reduce((sum, arm) => sum + arm.units, 0), ripe = found.arms.reduce((sum, arm) => sum + arm.ripe, 0);
  const says = found.broken ? null : found.winner ? [h("b", { class: "right" }, found.winner), " is surely the best arm."] : "No arm is surely better yet.";
  return [
    h("div", { class: "figures" }, h("div", null, h("b", null, number(units)), small(`${found.unit}s in it`)), h("div", null, h("b", null, number(ripe)), small("ripe: they count")), h("div", null, h("b", null, found.ratio_p < 0.001 ? "below 0.001" : found.ratio_p.toFixed(3)), small("p of the arms’ shares"))),
    found.broken ? h("div", { class: "problem", role: "alert" }, h("strong", null, "The arms do not have their shares of the units."), " Something loses or moves units, so no comparison counts. Roll the experiment back, and start another one under a new name.") : h("p", { class: "lead" }, says, found.reason ? ` ${found.reason}` : null),
    primary.map((each) => section(`${each.arm} beside ${control}`, `${METRICS[found.metric]}, in points`, overTime(each, control))),
    section("Arms", null, tableOf([["Arm"], ["Policy"], ["Units", "n"], ["Ripe", "n"], ["Decisions", "n"], ...metrics.map((name) => [METRICS[name], "n"])],
      found.arms.map((arm, i) => [h("span", null, h("b", null, arm.arm), i ? "" : " (control)"), policy(arm), number(arm.units), number(arm.ripe), number(arm.decisions), ...metrics.map((name) => (arm.means[name] === null ? "–" : `${(100 * arm.means[name]).toFixed(1)} %`))]))),
    section("Differences from the control", "intervals that hold at every look", tableOf([["Arm"], ["Metric"], ["Points", "n"], ["Between", "n"], ["That is"]],
      found.comparisons.map((each) => [each.arm, h("span", null, METRICS[each.metric], each.metric === found.metric ? h("b", null, " decides") : ""), each.estimate === null ? "–" : points(each.estimate), each.estimate === null ? "–" : `${points(each.low)} and ${points(each.high)}`, verdict(each)]))),
    paired ? section("On the same messages", null, h("p", null, `${paired.first} and ${paired.second} decide ${number(paired.differ)} of ${plural(paired.decisions, "message")} differently. ${number(paired.labelled)} of these have a label that counts: ${paired.first} is right in ${number(paired.first_units)}, ${paired.second} in ${number(paired.second_units)}. `, paired.better ? [h("b", { class: "right" }, paired.better), " is surely better."] : "That is not sure yet.")) : null,
    found.breaks.length ? section("Breaks", "the agents' definitions changed", plainlist(found.breaks.map((each) => h("li", null, time(each.at), code(each.tree_version))))) : null,
  ];
}

function controls(found, again) {
  if (!may("definitions:write") || found.state === "rolled_back") return null;
  const end = async (how, body, question) => {
    if (!confirm(question)) return;
    try {
      await api.post(`experiments/${part(found.name)}/${how}`, body);
      toast(how === "promote" ? `${body.arm} decides in new sessions.` : how === "stop" ? "No more sessions come in." : `${found.arms[0].arm} decides in all sessions.`);
    } catch (error) { complain(error); }
    again();
  };
  const others = found.arms.filter((arm) => arm.arm !== found.promoted);
  return h("p", { class: "row" },
    h("select", { "aria-label": "Promote an arm", onchange: (event) => { const arm = event.target.value; event.target.value = ""; if (arm) end("promote", { arm }, `Let ${arm} decide all sessions that begin from now on? Earlier sessions keep their arm.`); } }, [["", "Promote…"], ...others.map((arm) => [arm.arm, arm.arm])].map(([value, text]) => h("option", { value }, text))),
    found.state === "running" ? h("button", { onclick: () => end("stop", undefined, "Take no more sessions into the experiment? Earlier sessions keep their arm.") }, "Stop") : null,
    h("button", { onclick: () => end("rollback", {}, `Let ${found.arms[0].arm} decide in all sessions at once? This is final.`) }, "Roll back"));
}

async function one(context, name) {
  const { box, signal, title } = context, found = await api.get(`experiments/${part(name)}`, {}, signal), again = () => one(context, name).catch((error) => signal.aborted || replace(box, problem(error)));
  title(name, tag(found.state));
  replace(box, wide(
    h("p", { class: "lead" }, `Each ${found.unit} has one arm. It counts once, by the share of its decisions that were ${METRICS[found.metric]}. Since `, time(found.started_at), found.ended_at ? [", until ", time(found.ended_at)] : "", found.promoted ? [". In new sessions ", h("b", null, found.promoted), " decides"] : "", "."),
    controls(found, again), analysis(found), h("p", { class: "needs" }, h("a", { href: "experiments" }, "All experiments"))));
}

export async function page(context) {
  const { box, signal, params } = context;
  if (!may("definitions:read")) { replace(box, forOperators("Experiments are")); return; }
  if (params.length) { await one(context, params.join("/")); return; }
  const { experiments, configured } = await api.get("experiments", {}, signal);
  const waits = configured && !experiments.some((each) => each.name === configured);
  if (!experiments.length) {
    replace(box, waits ? empty(`${configured} has not started`, "It starts with its first message. From then on its arms share the sessions, and this page compares them.", h("a", { class: "button primary", href: "chat" }, "Send a message"))
      : empty("No experiments", h("span", null, "An experiment lets several policies decide a part of the sessions each, and says which one is better. Name its arms under ", code("experiments"), " in turnwise.yaml.")));
    return;
  }
  const row = (each) => h("li", null, h("a", { class: "grow", href: `experiments/${part(each.name)}` }, h("b", null, each.name)), tag(each.state), h("span", { class: "grow faint" }, `${each.arms.map((arm) => arm.name).join(", ")}, by ${each.unit}`), time(each.ended_at || each.started_at));
  replace(box, h("div", { class: "narrow" }, waits ? h("p", { class: "lead" }, h("b", null, configured), " starts with its first message.") : null, plainlist(experiments.map(row))));
}
