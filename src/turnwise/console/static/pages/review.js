// Review: decisions to label, by doubt, disagreement or chance; equal messages as one item; by the keyboard alone.

import { api } from "../api.js";
import { chip, empty, h, replace, select, why } from "../parts.js";
import { complain, may, toast } from "../shell.js";
import { number, plural } from "../text.js";

const ORDERS = [["doubt", "By doubt"], ["disagreement", "By disagreement"], ["chance", "By chance"]];
const PAGES = 5, AT_ONCE = 200;
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
    return grouped(queue.map(({ decision, picked, probability }) => ({ ...decision, label: null, picked, probability })));
  }
  const decisions = [];
  for (let after, pages = 0; pages < PAGES && (pages === 0 || after); pages += 1) {
    const found = await api.get("decisions", { labelled: "false", slim: true, limit: 200, after }, signal);
    decisions.push(...found.decisions.filter((each) => each.selection.occasion !== "flow").map((each) => ({ ...each, picked: "disagreement" })));
    after = found.next;
  }
  return grouped(decisions).filter((each) => each.agents.length > 1).sort((a, b) => a.doubt - b.doubt);
}

export async function page({ box, signal, query, title, keys, go, setQuery }) {
  if (!may("decisions:label")) { replace(box, empty("For operators", "Labels are given by operators and admins.")); return; }
  const order = query.get("order") || "doubt", progress = h("small", { role: "status" });
  title("Review", progress, h("span", { class: "push" }, select("Order", order, ORDERS, (value) => { setQuery({ order: value === "doubt" ? "" : value }); go(`review${location.search}`, { replace: true }); })));
  const [known, queue] = await Promise.all([api.get("agents", { limit: 200 }, signal), read(order, signal)]), agents = known.agents.map((each) => each.name), undo = [];
  let at = 0, done = 0, busy = false;
  if (!queue.length) {
    replace(box, empty("Nothing to review", order === "disagreement" ? "No message went to several agents." : "No unlabelled decision is in doubt.", h("a", { class: "button", href: "review?order=chance" }, "Review by chance")));
    return;
  }
  const held = h("p", { class: "needs", role: "status" });
  const column = h("div", { class: "narrow reviewing" }), split = h("div", { class: "split" }, h("div", { class: "page" }, column)), aside = h("aside", { class: "aside", "aria-label": "Why this agent" });
  split.append(aside);
  replace(box, split);

  const pick = h("select", { "aria-label": "Another agent", onchange: () => { if (pick.value) label(pick.value); } });
  const label = async (agent) => {
    const item = queue[at];
    if (!item || busy) return;
    busy = true;
    const before = item.all.map((each) => each.label ?? null);
    try {
      await put(item.all, (each) => (agent === true ? each.selection.agent : agent));
      undo.push({ at, item, before });
      done += 1;
      step(1);
      toast(`${plural(item.all.length, "decision")} labelled ${agent === true ? "right" : agent}.`, ["Undo (u)", back]);
    } catch (error) {
      complain(error);
    } finally { busy = false; }
  };
  const back = async () => {
    const last = undo.pop();
    if (!last || busy) return;
    busy = true;
    try {
      const before = new Map(last.item.all.map((each, i) => [each, last.before[i]]));
      await put(last.item.all, (each) => before.get(each));
      done -= 1;
      at = last.at;
      draw();
    } catch (error) { complain(error); } finally { busy = false; }
  };
  const step = (by) => { at = Math.max(0, Math.min(queue.length, at + by)); draw(); };

  let asked = null;
  const details = async (each) => {
    asked?.abort();
    asked = new AbortController();
    const { signal: mine } = asked;
    replace(aside, why(each, { full: false }));
    if (each.selection.verdicts.length) return;
    try {
      const whole = await api.get(`sessions/${encodeURIComponent(each.session_id)}/decisions/${each.sequence}`, { user: each.user }, mine);
      each.selection = whole.selection;
      if (!mine.aborted) replace(aside, why(each, { full: false }));
    } catch (error) { if (error.name !== "AbortError") throw error; }
  };
  const draw = () => {
    progress.textContent = `${number(done)} done, ${number(queue.length - at)} left`;
    const item = queue[at];
    if (!item) {
      aside.remove();
      replace(column, empty("All done", `${plural(done, "item")} reviewed.`, h("button", { onclick: () => go("review") }, "Look for more"), undo.length ? h("button", { onclick: back }, "Undo the last") : null));
      return;
    }
    if (!aside.isConnected) split.append(aside);
    const { first } = item;
    replace(pick, [["", "Another agent…"], ...agents.map((name) => [name, name])].map(([value, text]) => h("option", { value }, text)));
    replace(column,
      h("p", { class: "faint" }, item.all.length > 1 ? `${item.all.length} equal messages` : "One message", item.agents.length > 1 ? [", went to ", item.agents.map((name) => [chip(name), " "])] : null, WHY[first.picked] ? `, ${WHY[first.picked]}` : ""),
      h("blockquote", { class: "big", dir: "auto", tabindex: first.text.length > 300 ? 0 : null }, first.text || "(no text)"),
      h("p", { class: "row" }, "went to ", item.agents.map((name) => chip(name))),
      h("p", { class: "row" }, h("button", { class: "primary", onclick: () => label(true) }, "Right ", h("kbd", null, "y")), pick, h("button", { class: "quiet", onclick: () => step(1) }, "Skip ", h("kbd", null, "j")), undo.length ? h("button", { class: "quiet", onclick: back }, "Undo ", h("kbd", null, "u")) : null),
      h("ol", { class: "quick" }, agents.slice(0, 9).map((name, i) => h("li", null, h("button", { class: "quiet", onclick: () => label(name) }, h("kbd", null, String(i + 1)), name)))), held);
    details(first);
    claim(first);
  };
  // Tells whether somebody else has the item; the claim ends by itself.
  const claim = async (each) => {
    replace(held);
    try {
      const found = await api.put(`sessions/${encodeURIComponent(each.session_id)}/decisions/${each.sequence}/claim`, undefined, { user: each.user });
      if (!found.mine && queue[at]?.first === each) replace(held, h("b", null, found.reviewer), " reviews this item now. ", h("button", { class: "quiet", onclick: () => step(1) }, "Skip it"));
    } catch { /* a claim is a courtesy */ }
  };
  keys([["y", "the chosen agent is right", () => label(true)], ["l", "another agent, by name", () => pick.focus()], ["j", "skip", () => step(1)], ["k", "back", () => step(-1)], ["u", "undo", back],
    ...agents.slice(0, 9).map((name, i) => [String(i + 1), name, () => label(name)])]);
  draw();
}
