// Review: decisions to label, by doubt, disagreement or chance; equal messages as one item; by the keyboard alone.

import { api, part } from "../api.js";
import { chip, empty, h, pickAgent, problem, replace, select, tellAsked, wasAsked, why } from "../parts.js";
import { complain, may, toast } from "../shell.js";
import { number, plural } from "../text.js";

const ORDERS = [["doubt", "By doubt"], ["disagreement", "By disagreement"], ["chance", "By chance"]];
const PAGES = 5, AT_ONCE = 200, BEFORE = 6, REST = 120;
const WHY = { complaint: "a user or a signal contradicts it", doubt: "not sure", random: "drawn at random: accuracy is estimated from these" };

const alike = (text) => text.trim().toLowerCase().replace(/\s+/g, " ");

// Groups equal messages. A group that several agents got is a disagreement.
function grouped(decisions) {
  const found = new Map();
  for (const each of decisions) {
    const name = alike(each.text) || `${each.user}/${each.session_id}/${each.sequence}`;
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(each);
  }
  return [...found.values()].map((all) => ({ all, first: all[0], agents: [...new Set(all.map((each) => each.selection.agent))], doubt: Math.min(...all.map((each) => each.selection.confidence)) }));
}

// Labels all of them, one request for each label and 200 decisions.
async function put(decisions, agentOf) {
  const by = new Map();
  for (const each of decisions) by.set(agentOf(each), [...(by.get(agentOf(each)) || []), each]);
  for (const [agent, all] of by) {
    for (let i = 0; i < all.length; i += AT_ONCE) {
      await api.post("decision-labels", { agent, decisions: all.slice(i, i + AT_ONCE).map(({ user, session_id, sequence, picked, probability }) => ({ user, session_id, sequence, picked, probability })) });
    }
    for (const each of all) each.label = agent;
  }
}

// The gateway orders by doubt, with every tenth drawn at random, or draws all. It says how each one was picked, which its label keeps.
async function read(order, signal) {
  if (order !== "disagreement") {
    const { queue } = await api.get("review-queue", { size: AT_ONCE, random: order === "chance" ? 1 : 0.1 }, signal);
    return grouped(queue.map(({ decision, picked, probability }) => ({ ...decision, was: decision.label ?? null, label: null, picked, probability })));
  }
  const decisions = [];
  for (let after, pages = 0; pages < PAGES && (pages === 0 || after); pages += 1) {
    const found = await api.get("decisions", { labelled: "false", slim: true, limit: 200, after }, signal);
    decisions.push(...found.decisions.filter((each) => each.selection.occasion !== "flow").map((each) => ({ ...each, was: null, picked: "disagreement" })));
    after = found.next;
  }
  return grouped(decisions).filter((each) => each.agents.length > 1).sort((a, b) => a.doubt - b.doubt);
}

// What was said before a message: without it nobody can judge "and the other one?".
async function saidBefore(each, signal) {
  if (each.sequence < 2) return [];
  const { events } = await api.get(`sessions/${part(each.session_id)}/events`, { user: each.user, before: each.sequence, last: BEFORE }, signal);
  const text = (event) => (event.content?.parts || []).filter((one) => one.kind === "text").map((one) => one.text).join("").slice(0, 300);
  return events.map((event) => ({ who: event.author, text: text(event) })).filter((one) => one.text).slice(-3);
}

export async function page({ box, signal, query, title, keys, go, setQuery }) {
  if (!may("decisions:label")) { replace(box, empty("For operators", "Labels are given by operators and admins.")); return; }
  const order = query.get("order") || "doubt", progress = h("small", { role: "status" });
  title("Review", progress, h("span", { class: "push" }, select("Order", order, ORDERS, (value) => { setQuery({ order: value === "doubt" ? "" : value }); go(`review${location.search}`, { replace: true }); })));
  const [known, queue] = await Promise.all([api.get("agents", { limit: 200 }, signal), read(order, signal)]), agents = known.agents.map((each) => each.name), undo = [];
  let at = 0, done = 0, sending = 0;
  if (!queue.length) {
    replace(box, empty("Nothing to review", order === "disagreement" ? "No message went to several agents." : "No unlabelled decision is in doubt.", h("a", { class: "button", href: "review?order=chance" }, "Review by chance")));
    return;
  }
  const held = h("p", { class: "needs", role: "status" }), context = h("ul", { class: "before", "aria-label": "Said before" });
  const column = h("div", { class: "narrow reviewing" }), split = h("div", { class: "split" }, h("div", { class: "page" }, column)), aside = h("aside", { class: "aside", "aria-label": "Why this agent" });
  split.append(aside);
  replace(box, split);

  // Labels are sent while the next items are shown: no key waits for the gateway. An item whose label was refused is shown again.
  const send = (item, agentOf, text, refused) => {
    sending += 1;
    item.saving = (item.saving || Promise.resolve()).then(() => put(item.all, agentOf)).then(() => {
      sending -= 1;
      if (text) toast(text, ["Undo (u)", back]);
      if (!queue[at]) draw();
    }, (error) => {
      sending -= 1;
      refused();
      at = Math.min(at, queue.indexOf(item));
      draw();
      complain(error);
    });
  };
  addEventListener("beforeunload", (event) => { if (sending) event.preventDefault(); }, { signal });
  const label = (agent) => {
    const item = queue[at];
    if (!item) return;
    if (agent === true && wasAsked(item.first)) { tellAsked(); return; }
    const entry = { at, item, before: item.all.map((each) => each.label ?? null) };
    undo.push(entry);
    done += 1;
    item.labelled = agent === true ? "right" : agent;
    send(item, (each) => (agent === true ? each.selection.agent : agent), `${plural(item.all.length, "decision")} labelled ${item.labelled}.`, () => {
      if (undo.includes(entry)) { undo.splice(undo.indexOf(entry), 1); done -= 1; }
      item.labelled = null;
    });
    step(1);
  };
  const back = () => {
    const last = undo.pop();
    if (!last) return;
    const before = new Map(last.item.all.map((each, i) => [each, last.before[i]])), { labelled } = last.item;
    last.item.labelled = null;
    done -= 1;
    at = last.at;
    send(last.item, (each) => before.get(each), "", () => { undo.push(last); done += 1; last.item.labelled = labelled; });
    draw();
  };
  // Goes on to the next item that nobody else has.
  const step = (by) => {
    do at = Math.max(0, Math.min(queue.length, at + by)); while (by > 0 && queue[at]?.taken);
    draw();
  };

  // Reads the reasons, what was said before, and claims the item, so that two people do not review the same one. A claim ends by
  // itself.
  const load = (item) => {
    const { first } = item, path = `sessions/${part(first.session_id)}/decisions/${first.sequence}`, as = { user: first.user };
    return (item.loading ||= Promise.all([api.get(path, as, signal), saidBefore(first, signal), api.put(`${path}/claim`, undefined, as)]).then(([whole, before, claim]) => {
      first.selection = whole.selection;
      const other = (whole.label ?? null) !== first.was && !item.labelled ? whole.label : null;
      if (!claim.mine) item.taken = h("span", null, "Another person reviews this item ", h("small", null, `(${claim.reviewer})`), ".");
      else if (other) item.taken = h("span", null, "Labelled ", chip(other), " meanwhile.");
      item.before = before;
    }).catch((error) => { item.loading = null; throw error; }));
  };
  const details = async (item) => {
    // A held key passes many items: only the one where it rests is asked for.
    if (!item.loading) await new Promise((rest) => setTimeout(rest, REST));
    if (queue[at] !== item || signal.aborted) return;
    try {
      await load(item);
      if (queue[at] !== item) return;
      told(item);
      count();
      if (queue[at + 1]) await load(queue[at + 1]).then(count, () => {});
    } catch (error) {
      if (error.name !== "AbortError" && queue[at] === item) replace(aside, problem(error, () => details(item)));
    }
  };
  const told = (item) => {
    replace(aside, why(item.first, { full: false }));
    replace(context, (item.before || []).map((each) => h("li", { dir: "auto" }, h("b", null, each.who), " ", each.text)));
    replace(held, item.taken ? [item.taken, " ", h("button", { class: "quiet", onclick: () => step(1) }, "Skip it")] : null);
  };
  const count = () => { progress.textContent = `${number(done)} done, ${number(queue.slice(at).filter((each) => !each.taken && !each.labelled).length)} left`; };
  const draw = () => {
    count();
    const item = queue[at];
    if (!item) {
      aside.remove();
      if (sending) replace(column, empty("Almost done", "The last labels are being sent."));
      else replace(column, empty("All done", `${plural(done, "item")} reviewed.`, h("button", { onclick: () => go("review") }, "Look for more"), undo.length ? h("button", { onclick: back }, "Undo the last") : null));
      return;
    }
    if (!aside.isConnected) split.append(aside);
    const { first } = item, asked = wasAsked(first);
    replace(column,
      h("p", { class: "faint" }, item.all.length > 1 ? `${item.all.length} equal messages` : "One message", item.agents.length > 1 ? [", went to ", item.agents.map((name) => [chip(name), " "])] : null, WHY[first.picked] ? `, ${WHY[first.picked]}` : ""),
      context,
      h("blockquote", { class: "big", dir: "auto", tabindex: first.text.length > 300 ? 0 : null }, first.text || "(no text)"),
      h("p", { class: "row" }, asked ? "the user was asked to choose" : ["went to ", item.agents.map((name) => chip(name))], item.labelled ? h("span", { class: "faint" }, `labelled ${item.labelled}`) : null),
      h("p", { class: "row" }, asked ? null : h("button", { class: "primary", onclick: () => label(true) }, "Right ", h("kbd", null, "y")), h("button", { onclick: pick }, "Another agent… ", h("kbd", null, "l")), h("button", { class: "quiet", onclick: () => step(1) }, "Skip ", h("kbd", null, "j")), undo.length ? h("button", { class: "quiet", onclick: back }, "Undo ", h("kbd", null, "u")) : null),
      h("ol", { class: "quick" }, agents.slice(0, 9).map((name, i) => h("li", null, h("button", { class: "quiet", onclick: () => label(name) }, h("kbd", null, String(i + 1)), name)))), held);
    told(item);
    details(item);
  };
  const pick = () => queue[at] && pickAgent(agents, label);
  keys([["y", "the chosen agent is right", () => label(true)], ["l", "another agent, by name", pick], ["j", "skip", () => step(1)], ["k", "back", () => step(-1)], ["u", "undo", back],
    ...agents.slice(0, 9).map((name, i) => [String(i + 1), name, () => label(name)])]);
  draw();
}
