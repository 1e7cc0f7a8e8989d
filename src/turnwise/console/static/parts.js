// The pieces that pages share: chips, bars, tables, states, and the panel that tells why.

import { add, code, h, icon, inRow, replace, small, svg } from "./dom.js";
import { api, part, Problem } from "./api.js";
import { ago, methodWords, ms, number, percent, plural, time } from "./text.js";
import { finder } from "./dialogs.js";
import { complain, handoff, may, me, toast } from "./shell.js";

const HUES = 12, hues = new Map();

// A name has the same hue everywhere, unless another name of this tab has it: then it gets the next free one.
function hue(name) {
  if (!hues.has(name)) {
    let sum = 0;
    for (const char of name) sum = (Math.imul(sum, 31) + char.codePointAt(0)) >>> 0;
    const taken = new Set(hues.values());
    let slot = sum % HUES;
    for (let tries = 0; taken.has(slot) && tries < HUES; tries += 1) slot = (slot + 5) % HUES;
    hues.set(name, slot);
  }
  return hues.get(name) * (360 / HUES);
}

// An agent's name. The hue is a help only: the name is always there.
export const chip = (name, plain) => h(plain ? "span" : "a", {
  class: "chip", style: { "--hue": hue(name) }, href: plain ? null : `agents/${part(name)}`, title: plain ? null : `Agent ${name}`,
}, name);

export const bar = (share, kind = "") => h("span", { class: `bar ${kind}`, "aria-hidden": "true" }, h("i", { style: { "--w": `${Math.max(0, Math.min(1, share)) * 100}%` } }));

export const confidence = (selection) => h("span", { class: "confidence" },
  bar(selection.confidence, selection.outcome === "clarify" ? "asks" : selection.confidence < 0.5 ? "low" : ""), h("b", null, percent(selection.confidence)));

export const empty = (title, text, ...actions) => h("div", { class: "empty" }, h("h2", null, title), h("p", null, text), actions.length ? h("p", { class: "row" }, actions) : null);

export function problem(error, again) {
  const known = error instanceof Problem;
  return h("div", { class: "problem", role: "alert" },
    h("strong", null, known ? error.message : "This page failed."), " ", known ? error.fix : String(error.message || error),
    known && error.request ? small(`Request ${error.request}`) : null,
    again ? h("button", { class: "quiet", onclick: again }, "Try again") : null);
}

// The text of a decision. A flow's own choices have none: they are about a task.
export const said = (decision) => decision.text || h("span", { class: "faint" }, decision.selection.occasion === "flow" ? "(a task of a flow)" : "(no text)");

export const NO_DEFINITIONS = "need definitions: an app from turnwise.yaml, with a SQL database as store.";

export const faint = (...content) => h("p", { class: "faint" }, content);
export const wide = (...content) => h("div", { class: "narrow wide" }, content);
export const plainlist = (...rows) => h("ul", { class: "plainlist" }, rows);
export const fact = (name, value) => [h("dt", null, name), h("dd", null, value)];
export const figure = (value, text, href) => h(href ? "a" : "div", { href }, h("b", null, value), small(text));

export const chips = (names) => names.map((name) => [chip(name), " "]);

// Messages to try, from the agents' examples.
export function samplesOf(agents) {
  const found = agents.map((each) => each.matching?.examples[0] || each.matching?.skills[0]?.examples?.[0]).filter(Boolean);
  return [...found, "Hello", "What can you do?"].slice(0, 3);
}

// A part of a page. `note` stands beside its heading.
export const section = (text, note, ...content) => h("section", { class: "section" }, h("h2", null, text, note ? small(note) : null), content);

export const forOperators = (what) => empty("For operators", `${what} shown to operators and admins.`);

export const needs = (title, what) => h("p", { class: "needs" }, h("b", null, title), " ", what);

// What lint found, worst first.
export const findings = (list) => h("ul", { class: "plainlist findings" }, list.map((each) => h("li", null,
  h("b", { class: each.severity === "error" ? "wrong" : each.severity === "warning" ? "asks" : "faint" }, each.severity),
  h("div", { class: "grow" }, h("p", { dir: "auto" }, each.problem), each.evidence.length ? h("p", { class: "faint", dir: "auto" }, each.evidence.slice(0, 3).map((text) => `“${text.slice(0, 160)}”`).join(", ")) : null, h("p", { dir: "auto" }, each.fix)),
  h("span", { class: "who" }, chips(each.agents.slice(0, 3))))));

export function select(label, value, options, onchange) {
  return h("select", { "aria-label": label, class: value && value !== options[0][0] ? "set" : "", onchange: (event) => onchange(event.target.value) },
    options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
}

// A list of shares, longest first; rows below 1 % fold away.
export function shares(rows, total, label) {
  const shown = rows.filter((row) => row.count / total >= 0.01), hidden = rows.slice(shown.length);
  const line = (row) => h("li", null, h("span", { class: "name" }, label(row)), bar(row.count / total), h("b", null, percent(row.count / total)), small(number(row.count)));
  return h("div", { class: "shares" }, h("ul", null, shown.map(line)),
    hidden.length ? h("details", null, h("summary", null, `${hidden.length} more below 1 %`), h("ul", null, hidden.map(line))) : null);
}

// Decisions over time: one bar a part of time; the darker foot asked the user to choose.
export function chart(times, seconds) {
  if (!times.length) return null;
  const first = Date.parse(times[0].start), last = Date.parse(times.at(-1).start);
  const count = Math.round((last - first) / 1000 / seconds) + 1, most = Math.max(...times.map((each) => each.count));
  const slots = Math.max(count, 24), width = 720 / slots, high = 96, begin = slots - count;
  const bars = times.map((each) => {
    const x = (begin + (Date.parse(each.start) - first) / 1000 / seconds) * width, y = (each.count / most) * high, foot = (each.clarified / most) * high;
    return svg("g", {}, svg("title", {}, `${new Date(each.start).toLocaleString()}: ${plural(each.count, "decision")}, ${each.clarified} asked the user`),
      svg("rect", { class: "all", x: x + 1, y: high - y, width: Math.max(1, width - 2), height: y, rx: 1.5 }),
      svg("rect", { class: "asks", x: x + 1, y: high - foot, width: Math.max(1, width - 2), height: foot, rx: 1.5 }));
  });
  return h("figure", { class: "chart" },
    svg("svg", { viewBox: `0 0 720 ${high}`, role: "img", "aria-label": `Decisions over time, at most ${most} at once`, preserveAspectRatio: "none" }, bars),
    h("figcaption", null, time(new Date(last - (slots - 1) * seconds * 1000).toISOString()), h("span", null, `most in ${ago(seconds)}: ${number(most)}`), time(times.at(-1).start)));
}

// ---- why -------------------------------------------------------------------------------------------------------------

const facts = (pairs) => h("dl", { class: "facts" }, pairs.filter(Boolean).map((pair) => fact(...pair)));

export function headline(selection) {
  return h("div", { class: "headline" },
    h("p", { class: "who" }, chip(selection.agent), h("span", null, methodWords(selection.method))),
    h("p", { class: "sure" }, confidence(selection), small(`decided in ${ms(selection.ms)}`)),
    selection.reason ? h("p", { class: "reason", dir: "auto" }, selection.reason) : null);
}

function candidates(selection) {
  const best = [...selection.verdicts].reverse().find((each) => each.candidates.length);
  if (!best) return null;
  const line = (each) => h("li", { class: each.agent === selection.agent ? "won" : "" },
    h("p", null, chip(each.agent), h("b", null, percent(each.score))), bar(each.score), each.evidence ? h("small", { dir: "auto" }, each.evidence) : null);
  const shown = best.candidates.filter((each) => each.score >= 0.01), hidden = best.candidates.filter((each) => each.score < 0.01);
  return h("section", null, h("h3", null, "Candidates"), h("ul", { class: "candidates" }, shown.map(line)),
    hidden.length ? h("details", null, h("summary", null, `${hidden.length} more below 1 %`), h("ul", { class: "candidates" }, hidden.map(line))) : null);
}

const OUTCOME = { chosen: "chose", clarify: "asks", abstained: "passed" };

function stages(selection) {
  return h("section", null, h("h3", null, "Stages, in order"), h("ol", { class: "stages" }, selection.verdicts.map((each) =>
    h("li", { class: each.outcome },
      h("p", null, h("b", null, each.selector), h("span", { class: "did" }, OUTCOME[each.outcome] || each.outcome), small(ms(each.ms))),
      each.reason ? h("p", { class: "told", dir: "auto" }, each.reason) : null,
      each.ignored.length ? h("p", { class: "told" }, `Not followed: ${each.ignored.join("; ")}`) : null))));
}

function excluded(selection) {
  if (!selection.excluded_count) return null;
  return h("section", null, h("details", null, h("summary", null, `${plural(selection.excluded_count, "agent")} not eligible`),
    h("ul", { class: "plain" }, selection.excluded.map((each) => h("li", null, chip(each.agent), " ", each.detail || each.rule.replaceAll("_", " "))))));
}

export const sessionPath = (id, user) => `sessions/${part(id)}?user=${part(user)}`;
export const chatPath = (id, user) => `chat/${part(id)}?user=${part(user)}`;
export const decisionPath = (each) => `decisions/${part(each.session_id)}/${each.sequence}?user=${part(each.user)}`;

// Everything that is known of a decision. `onlabel` is told the new label.
export function why(decision, { agents = [], onlabel, full = true } = {}) {
  const selection = decision.selection;
  return h("div", { class: "why" },
    full && decision.text !== undefined ? h("blockquote", { dir: "auto" }, said(decision)) : null,
    headline(selection),
    may("decisions:label") && decision.sequence && agents.length ? labelling(decision, agents, onlabel) : null,
    candidates(selection), stages(selection), excluded(selection),
    h("section", null, h("h3", null, "Record"), facts([
      decision.created_at && ["Decided", time(decision.created_at)],
      decision.session_id && ["Session", h("a", { href: sessionPath(decision.session_id, decision.user) }, decision.session_id)],
      decision.user && ["User", decision.user],
      decision.sequence && ["Decision", h("a", { href: decisionPath(decision) }, `number ${decision.sequence}`)],
      ["Policy", h("span", null, h("a", { href: "policy" }, selection.policy || "custom"), selection.segment ? `, segment ${selection.segment}` : "", " ", code(selection.fingerprint))],
      ["Agent tree", code(selection.tree_version)],
    ])));
}

export async function putLabel(decision, agent) {
  await api.put(`sessions/${part(decision.session_id)}/decisions/${decision.sequence}/label`, { agent }, { user: decision.user });
  decision.label = agent;
}

export const labelText = (decision) => {
  if (!decision.label) return h("span", { class: "faint" }, "–");
  return decision.label === decision.selection.agent ? h("span", { class: "right" }, "right") : h("span", { class: "wrong" }, `→ ${decision.label}`);
};

// Lets a person find one agent by typing.
export const pickAgent = (agents, choose) => finder("The agent that should have answered", (words) => {
  const found = agents.filter((name) => name.toLowerCase().includes(words.toLowerCase())), first = (name) => !name.toLowerCase().startsWith(words.toLowerCase());
  return found.sort((a, b) => first(a) - first(b)).map((name) => [name, name, "agents"]);
}, choose);

export const wasAsked = (decision) => decision.selection.outcome === "clarify";
export const tellAsked = () => toast("The user was asked, so no agent was chosen yet. Pick the one that should have answered.");

// A label that says another agent can become an example of that agent.
function exampleLink(decision) {
  const { label } = decision;
  if (!label || !decision.text || (label === decision.selection.agent && !wasAsked(decision)) || !me.definitions || !may("definitions:write")) return null;
  return h("p", null, h("a", { href: `agents/${part(label)}`, onclick: () => { handoff.example = { agent: label, text: decision.text }; } }, `Make this message an example of ${label}`));
}

function labelling(decision, agents, onlabel) {
  const box = h("section", { class: "labelling" });
  const set = async (agent) => {
    const before = decision.label ?? null;
    try {
      await putLabel(decision, agent);
    } catch (error) {
      complain(error);
      return;
    }
    draw();
    onlabel?.(decision);
    toast(agent ? `Labelled ${agent}.` : "Label removed.", ["Undo", () => set(before)]);
  };
  const right = () => (wasAsked(decision) ? tellAsked() : set(decision.selection.agent)), pick = () => pickAgent(agents, set);
  const draw = () => {
    const isRight = decision.label === decision.selection.agent && !wasAsked(decision), other = decision.label && !isRight;
    replace(box, h("h3", null, "Who should have answered"),
      h("p", { class: "row" },
        wasAsked(decision) ? null : h("button", { class: isRight ? "on" : "", "aria-pressed": isRight, onclick: right }, "Right ", h("kbd", null, "y")),
        h("button", { class: other ? "on" : "", onclick: pick }, other ? decision.label : "Another agent…", " ", h("kbd", null, "l")),
        decision.label ? h("button", { class: "quiet", onclick: () => set(null) }, "Remove") : null),
      exampleLink(decision));
  };
  draw();
  Object.assign(box, { right, pick });
  return box;
}

// The keys that label the decision of the panel that `panel()` returns, while it is open.
export const labelKeys = (panel) => {
  const labelling = () => (panel()?.isConnected ? panel().querySelector(".labelling") : null);
  return [["y", "label as right", () => labelling()?.right()], ["l", "label another agent", () => labelling()?.pick()]];
};

// ---- tables ----------------------------------------------------------------------------------------------------------

// The search field of a list. It searches while the user types, which draws the page again and keeps the focus; Enter and the
// down key go to the first row.
let typing = false;
export function searchField(label, value, change, rows) {
  const field = h("input", { type: "search", value, placeholder: "Search", "aria-label": label });
  let timer;
  const run = () => { clearTimeout(timer); timer = null; typing = true; change(field.value.trim()); };
  field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(run, 250); });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== "ArrowDown") return;
    event.preventDefault();
    if (timer) run(); else rows().go(0, true);
  });
  // To be called when the field is in the page.
  field.resume = () => {
    if (typing) { field.focus(); field.setSelectionRange(field.value.length, field.value.length); }
    typing = false;
  };
  return field;
}

// A table that draws only the rows in sight. more() loads the next rows and returns whether there may be others.
export function table({ label, columns, row, open, more, height = 44 }) {
  const rows = [], body = h("div", { class: "rows", role: "rowgroup" });
  const head = h("div", { role: "rowgroup", class: "head" }, h("div", { role: "row", class: "tr" }, columns.map((name) => h("span", { role: "columnheader" }, name))));
  const grid = h("div", { role: "grid", "aria-label": label, class: "grid" }, head, body);
  const note = h("p", { class: "note", role: "status" });
  const ending = () => { note.textContent = ended && rows.length > 20 ? `${number(rows.length)} rows, to the end.` : ""; };
  const view = h("div", { class: "scroll", onscroll: () => draw(), tabindex: -1 }, grid, note);
  let at = -1, loading = null, ended = false, first = -1, last = -1;

  const draw = (force) => {
    const from = Math.max(0, Math.floor(view.scrollTop / height) - 8), to = Math.min(rows.length, from + Math.ceil((view.clientHeight || 800) / height) + 16);
    if (view.scrollTop + view.clientHeight > rows.length * height - 600 && !ended) load();
    if (!force && from === first && to === last) return;
    [first, last] = [from, to];
    const focused = body.contains(document.activeElement);
    body.style.setProperty("height", `${rows.length * height}px`);
    grid.setAttribute("aria-rowcount", ended ? rows.length + 1 : -1);
    replace(body, rows.slice(from, to).map((each, i) => h("div", {
      role: "row", class: `tr${from + i === at ? " at" : ""}`, "aria-rowindex": from + i + 2, "aria-selected": from + i === at,
      tabindex: from + i === Math.max(at, 0) ? 0 : -1, style: { "--y": `${(from + i) * height}px` },
      onclick: (event) => event.target.closest("a") || go(from + i, true), onkeydown: (event) => { if (event.key === "Enter" && event.target === event.currentTarget) go(from + i, true); },
    }, row(each).map((cell) => h("span", { role: "gridcell" }, cell)))));
    if (focused) body.querySelector(".at")?.focus({ preventScroll: true });
  };
  const go = (to, focus) => {
    if (to < 0 || to >= rows.length) return;
    at = to;
    const top = at * height;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (top + height * 2 > view.scrollTop + view.clientHeight) view.scrollTop = top + height * 2 - view.clientHeight;
    draw(true);
    if (focus) body.querySelector(".at")?.focus({ preventScroll: true });
    open(rows[at]);
  };
  const load = () => {
    loading ||= (async () => {
      try {
        note.textContent = rows.length ? "Loading…" : "";
        ended = !(await more());
        ending();
      } catch (error) {
        if (error.name === "AbortError") return;
        ended = true;
        replace(note, problem(error, () => { ended = false; load(); }));
      } finally {
        loading = null;
      }
      draw(true);
    })();
    return loading;
  };
  return {
    view, rows, load, go,
    move: (by) => go(Math.max(0, at + by), true),
    refresh: () => draw(true),
    prepend: (each) => {
      rows.unshift(each);
      if (at >= 0) at += 1;
      if (view.scrollTop > 0) view.scrollTop += height;
      draw(true);
    },
    find: (test) => rows.findIndex(test),
    get current() { return rows[at]; },
  };
}

export { add, code, h, icon, inRow, replace, small, svg };
