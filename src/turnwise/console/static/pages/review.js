// Review: decisions to label, by doubt, disagreement or chance; equal messages as one item; by the keyboard alone.

import { api, part } from "../api.js";
import { chip, chips, empty, faint, h, inRow, pickAgent, problem, replace, select, tellAsked, wasAsked, why } from "../parts.js";
import { agentNames, may, toast, unsaved } from "../shell.js";
import { number, plural } from "../text.js";

const ORDERS = [["doubt", "By doubt"], ["disagreement", "By disagreement"], ["chance", "By chance"]];
const PAGES = 5, AT_ONCE = 200, BEFORE = 6, REST = 120, RENEW = 60_000;
const WHY = { complaint: "a user or a signal contradicts it", doubt: "not sure", random: "drawn at random: accuracy is estimated from these" };

// How many labels are being sent, also of a page that was left.
let sending = 0;
unsaved.add(() => sending);

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
  const [agents, queue] = await Promise.all([agentNames(), read(order, signal)]), undo = [];
  let at = 0, own = 0;
  if (!queue.length) {
    replace(box, empty("Nothing to review", order === "disagreement" ? "No message went to several agents." : "No unlabelled decision is in doubt.", h("a", { class: "button", href: "review?order=chance" }, "Review by chance")));
    return;
  }
  const held = h("p", { class: "needs", role: "status" }), context = h("ul", { class: "before", "aria-label": "Said before" });
  const column = h("div", { class: "narrow reviewing" }), split = h("div", { class: "split" }, h("div", { class: "page" }, column)), aside = h("aside", { class: "aside", "aria-label": "Why this agent" });
  split.append(aside);
  replace(box, split);

  // Labels are sent while the next items are shown: no key waits for the gateway. An item whose label was refused comes again after
  // the one in sight, which stays.
  const send = (entry, agentOf, stored, refused) => {
    const { item } = entry;
    sending += 1;
    own += 1;
    item.saving = (item.saving || Promise.resolve()).then(() => {
      entry.before ||= new Map(item.all.map((each) => [each, each.label ?? null]));
      return put(item.all, agentOf);
    }).then(stored, (error) => {
      refused();
      relabel(item);
      toast(`The label of “${item.first.text.slice(0, 60)}” was not stored. ${error.message} ${error.fix || ""}`);
      if (queue[at] === item) draw(); else count();
    }).finally(() => {
      sending -= 1;
      own -= 1;
      if (!queue[at]) draw();
    });
  };
  const newest = (item) => undo.findLast((each) => each.item === item);
  const relabel = (item) => { item.labelled = newest(item)?.labelled || null; };
  const label = (agent, item = queue[at]) => {
    if (!item) return;
    if (agent === true && wasAsked(item.first)) { tellAsked(); return; }
    const entry = { item, labelled: agent === true ? "right" : agent };
    undo.push(entry);
    relabel(item);
    send(entry, (each) => (agent === true ? each.selection.agent : agent), () => toast(`${plural(item.all.length, "decision")} labelled ${entry.labelled}.`, ["Undo (u)", () => back(entry)]), () => {
      if (undo.includes(entry)) undo.splice(undo.indexOf(entry), 1);
      const was = queue.indexOf(item);
      if (was >= at || newest(item)) return;
      queue.splice(was, 1);
      at -= 1;
      queue.splice(at + 1, 0, item);
    });
    if (queue[at] === item) step(1); else draw();
  };
  // Takes back the newest label, or that of an entry's item.
  const back = (entry) => {
    const last = entry ? undo.includes(entry) && newest(entry.item) : undo.at(-1);
    if (!last) return;
    undo.splice(undo.indexOf(last), 1);
    relabel(last.item);
    at = queue.indexOf(last.item);
    send(last, (each) => last.before.get(each), () => {}, () => undo.push(last));
    draw();
  };
  // Goes on to the next item that nobody else has.
  const step = (by) => {
    do at = Math.max(0, Math.min(queue.length, at + by)); while (by > 0 && queue[at]?.taken);
    draw();
  };

  // What only helps may fail: the reasons are shown without it.
  const or = (instead) => (error) => { if (error.name === "AbortError") throw error; return instead; };
  const pathOf = ({ session_id, sequence }) => `sessions/${part(session_id)}/decisions/${sequence}`;
  // Reads the reasons and what was said before.
  const load = (item) => {
    const { first } = item;
    return (item.loading ||= Promise.all([api.get(pathOf(first), { user: first.user }, signal), saidBefore(first, signal).catch(or([]))]).then(([whole, before]) => {
      first.selection = whole.selection;
      if ((whole.label ?? null) !== first.was && !item.labelled) item.other = whole.label;
      item.before = before;
    }).catch((error) => { item.loading = null; throw error; }));
  };
  // Claims the item, too, so that two people do not review the same one. A claim ends by itself, so the item in sight is claimed again.
  const claim = async (item) => {
    const { first } = item;
    const [found] = await Promise.all([api.put(`${pathOf(first)}/claim`, undefined, { user: first.user }).catch(or({ mine: true })), load(item)]);
    item.taken = !found.mine ? h("span", null, "Another person reviews this item ", h("small", null, `(${found.reviewer})`), ".")
      : item.other && !item.labelled ? h("span", null, "Labelled ", chip(item.other), " meanwhile.") : null;
  };
  const renewal = setInterval(() => {
    const item = queue[at];
    if (item?.loading && !document.hidden) claim(item).then(() => { if (queue[at] === item) holder(item); count(); }, () => {});
  }, RENEW);
  signal.addEventListener("abort", () => clearInterval(renewal));
  const details = async (item) => {
    // A held key passes many items: only the one where it rests is asked for.
    await new Promise((rest) => setTimeout(rest, REST));
    if (queue[at] !== item || signal.aborted) return;
    try {
      await claim(item);
      if (queue[at] !== item) return;
      told(item);
      count();
      if (queue[at + 1]) await claim(queue[at + 1]).then(count, () => {});
    } catch (error) {
      if (error.name !== "AbortError" && queue[at] === item) replace(aside, problem(error, () => details(item)));
    }
  };
  const told = (item) => {
    replace(aside, why(item.first, { full: false }));
    replace(context, (item.before || []).map((each) => h("li", { dir: "auto" }, h("b", null, each.who), " ", each.text)));
    holder(item);
  };
  const holder = (item) => replace(held, item.taken ? [item.taken, " ", h("button", { class: "quiet", onclick: () => step(1) }, "Skip it")] : null);
  const count = () => { progress.textContent = `${number(undo.length)} done, ${number(queue.slice(at).filter((each) => !each.taken && !each.labelled).length)} left`; };
  const draw = () => {
    count();
    const item = queue[at];
    if (!item) {
      aside.remove();
      if (own) replace(column, empty("Almost done", "The last labels are being sent."));
      else replace(column, empty("All done", `${plural(undo.length, "item")} reviewed.`, h("button", { onclick: () => go("review") }, "Look for more"), undo.length ? h("button", { onclick: () => back() }, "Undo the last") : null));
      return;
    }
    if (!aside.isConnected) split.append(aside);
    const { first } = item, asked = wasAsked(first);
    replace(column,
      faint(item.all.length > 1 ? `${item.all.length} equal messages` : "One message", item.agents.length > 1 ? [", went to ", chips(item.agents)] : null, WHY[first.picked] ? `, ${WHY[first.picked]}` : ""),
      context,
      h("blockquote", { class: "big", dir: "auto", tabindex: first.text.length > 300 ? 0 : null }, first.text || "(no text)"),
      inRow(asked ? "the user was asked to choose" : ["went to ", item.agents.map((name) => chip(name))], item.labelled ? h("span", { class: "faint" }, `labelled ${item.labelled}`) : null),
      inRow(asked ? null : h("button", { class: "primary", onclick: () => label(true) }, "Right ", h("kbd", null, "y")), h("button", { onclick: pick }, "Another agent… ", h("kbd", null, "l")), h("button", { class: "quiet", onclick: () => step(1) }, "Skip ", h("kbd", null, "j")), undo.length ? h("button", { class: "quiet", onclick: () => back() }, "Undo ", h("kbd", null, "u")) : null),
      h("ol", { class: "quick" }, agents.slice(0, 9).map((name, i) => h("li", null, h("button", { class: "quiet", onclick: () => label(name) }, h("kbd", null, String(i + 1)), name)))), held);
    told(item);
    details(item);
  };
  const pick = () => {
    const item = queue[at];
    if (item) pickAgent(agents, (agent) => label(agent, item));
  };
  keys([["y", "the chosen agent is right", () => label(true)], ["l", "another agent, by name", pick], ["j", "skip", () => step(1)], ["k", "back", () => step(-1)], ["u", "undo", () => back()],
    ...agents.slice(0, 9).map((name, i) => [String(i + 1), name, () => label(name)])]);
  draw();
}
