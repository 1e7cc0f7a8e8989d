// Decisions: all of them, newest first, with filters in the address; one beside the list.

import { api, auth, newDecisions, part } from "../api.js";
import { chatPath, chip, confidence, empty, h, icon, labelKeys, labelText, problem, replace, said, searchField, select, table, why } from "../parts.js";
import { agentNames, may, mayAll } from "../shell.js";
import { methodWords, number, plural, time } from "../text.js";

const TIMES = [["", "Time"], ["1h", "Last hour"], ["1d", "Last day"], ["7d", "Last 7 days"], ["30d", "Last 30 days"]];
const OLDEST = ["oldest", "Oldest first"];
const SPANS = { "1h": 3600, "1d": 86400, "7d": 604800, "30d": 2592000 };
const SURE = [["", "Confidence"], ["0-0.5", "Below 50 %"], ["0.5-0.8", "50 to 80 %"], ["0.8-1", "Above 80 %"]];
const LABELS = [["", "Label"], ["none", "Unlabelled"], ["some", "Labelled"], ["wrong", "Wrong agent"]];

// What was counted lately: lists that follow one another have the same counts.
const FRESH = 15_000;
let lately = { key: null, at: 0, counts: new Map() };

function counted(filters) {
  const name = JSON.stringify(Object.entries(filters).filter(([, value]) => value));
  if (lately.key !== auth.key || Date.now() - lately.at > FRESH) lately = { key: auth.key, at: Date.now(), counts: new Map() };
  const { counts } = lately;
  if (!counts.has(name)) {
    counts.set(name, api.get("decision-counts", filters));
    counts.get(name).catch(() => counts.delete(name));
  }
  return counts.get(name);
}

// What the API is asked for, from the address.
export function filterOf(query) {
  const [low, high] = (query.get("sure") || "").split("-"), labels = query.get("labels"), span = SPANS[query.get("time")];
  return {
    words: query.get("words"), agent: query.get("agent"), method: query.get("method"), outcome: query.get("outcome"), user: query.get("user"), label: query.get("label"), policy: query.get("policy"),
    session_id: query.get("session"), min_confidence: low || null, max_confidence: high || null,
    until: query.get("until"), order: query.get("order"),
    since: span ? new Date(Date.now() - span * 1000).toISOString() : null,
    labelled: labels === "none" ? "false" : labels === "some" ? "true" : null, contradicted: labels === "wrong" ? "true" : null,
  };
}

export async function page({ box, signal, query, setQuery, title, keys, go }) {
  let next, open = null, agents = [], filters = filterOf(query);
  const count = h("small", { role: "status" });
  title("Decisions", count);
  const split = h("div", { class: "split" }), aside = h("aside", { class: "aside", "aria-label": "Why this agent" }), bar = h("div", { class: "filters", role: "search" });
  const holder = h("div", { class: "list" }, bar);
  replace(split, holder);
  replace(box, split);

  const rows = table({
    label: "Decisions", columns: ["Message", "Agent", "Method", "Confidence", "Label or time"],
    row: (each) => [h("span", { dir: "auto" }, said(each)), chip(each.selection.agent, true), methodWords(each.selection.method), confidence(each.selection), each.label ? labelText(each) : time(each.created_at)],
    open: (each) => show(each),
    more: async () => {
      const page = await api.get("decisions", { ...filters, slim: true, after: next, limit: 100 }, signal);
      rows.rows.push(...page.decisions);
      next = page.next;
      if (!rows.rows.length && !next) replace(rows.view, nothing());
      return Boolean(next);
    },
  });
  rows.view.classList.add("decisions");
  holder.append(rows.view);

  const nothing = () => (Object.values(filters).some(Boolean)
    ? empty("Nothing matches", "No decision has all of these properties.", h("a", { class: "button", href: "decisions" }, "Clear the filters"))
    : empty("No decisions yet", "Each message makes one. Send the first.", h("a", { class: "button primary", href: "chat" }, "Open the chat")));

  let asked = null;
  const show = async (each) => {
    open = each;
    setQuery({ open: `${each.user}/${each.session_id}/${each.sequence}` });
    if (!aside.isConnected) { split.append(aside); rows.refresh(); }
    draw(each);
    asked?.abort();
    asked = new AbortController();
    const { signal: mine } = asked;
    // A held key passes many rows: only the one where it rests is asked for.
    await new Promise((done) => setTimeout(done, 120));
    if (mine.aborted || each.selection.verdicts.length) return;
    try {
      each.selection = (await api.get(`sessions/${part(each.session_id)}/decisions/${each.sequence}`, { user: each.user }, mine)).selection;
      if (open === each) draw(each);
    } catch (error) { if (error.name !== "AbortError") aside.append(problem(error, () => show(each))); }
  };
  const close = () => { aside.remove(); open = null; setQuery({ open: "" }); rows.refresh(); };
  const draw = (each) => replace(aside,
    h("header", null, h("a", { href: chatPath(each.session_id, each.user) }, "Open in the chat"), h("button", { class: "quiet square", "aria-label": "Close", onclick: close }, icon("close"))),
    why(each, { agents, onlabel: () => rows.refresh() }));

  const search = searchField("Words of the message", query.get("words") || "", (words) => change({ words }), () => rows);
  const change = (changes) => { setQuery({ ...changes, open: "" }); go(`decisions${location.search}`, { replace: true }); };

  // The search stays in its place when the others are drawn again: who is typing keeps the focus.
  const others = h("div", { class: "contents" });
  replace(bar, search, others);
  const drawFilters = (counts) => {
    const facet = (list) => list.map((each) => [each.name, `${each.name} · ${number(each.count)}`]);
    const known = (list, name, words = (each) => each) => { const at = query.get(name); return [...list, ...(at && !list.some(([key]) => key === at) ? [[at, words(at)]] : [])]; };
    replace(others,
      select("Agent", query.get("agent") || "", known([["", "Agent"], ...facet(counts.agents)], "agent"), (agent) => change({ agent })),
      select("Method", query.get("method") || "", known([["", "Method"], ...counts.methods.map((each) => [each.name, `${methodWords(each.name)} · ${number(each.count)}`])], "method", methodWords), (method) => change({ method })),
      select("Confidence", query.get("sure") || "", SURE, (sure) => change({ sure })),
      select("Outcome", query.get("outcome") || "", [["", "Outcome"], ["chosen", "Chosen"], ["clarify", "Asked the user"]], (outcome) => change({ outcome })),
      may("decisions:label") ? select("Label", query.get("labels") || "", LABELS, (labels) => change({ labels })) : null,
      query.get("until")
        ? h("button", { class: "on", title: "Show the newest ones", onclick: () => change({ until: "" }) }, "Until ", time(query.get("until")), icon("close"))
        : select("Time", query.get("order") || query.get("time") || "", [...TIMES, OLDEST], (span) => (span === "oldest" ? toEnd() : change({ time: span, order: "" }))));
  };
  // The end of the list costs what its beginning does: the list is turned over.
  const toEnd = () => change({ order: "oldest", until: "", time: "" });
  drawFilters({ agents: [], methods: [] });

  keys([["/", "search", () => search.focus()], ["j", "next", () => rows.move(1)], ["k", "previous", () => rows.move(-1)], ["e", "to the end of the list", () => toEnd()],
    ...labelKeys(() => aside),
    ["o", "open in the chat", () => open && go(chatPath(open.session_id, open.user))], ["x", "close the panel", close]]);

  search.resume();
  const { session_id: _, words: __, order: ___, ...countable } = filters;
  const { agent: _____, method: ____, ...unlisted } = countable;
  // Counting is slow, so the rows come first. The lists of agents and methods name all that the other filters leave.
  const listed = rows.load();
  if (may("decisions:label")) agentNames().then((names) => { agents = names; if (open) draw(open); }, () => {});
  await listed;
  if (signal.aborted) return;
  const [total, facets] = await Promise.all([countable, unlisted].map((each) => (filters.session_id ? null : counted(each).catch(() => null))));
  if (signal.aborted) return;
  if (facets) drawFilters(facets);
  if (total && !filters.words) count.textContent = total.complete ? plural(total.total, "decision") : `${number(total.total)} of the newest ${number(total.examined)}`;
  const given = query.get("open");
  if (given) {
    const at = rows.find((each) => `${each.user}/${each.session_id}/${each.sequence}` === given);
    if (at >= 0) rows.go(at);
  }
  if (Object.values(filters).some(Boolean) || !mayAll("decisions:read")) return;
  for await (const each of newDecisions({}, rows.rows[0]?.created_at, signal)) {
    if (!each) { go(`decisions${location.search}`, { replace: true }); return; }
    if (rows.rows.some((one) => one.session_id === each.session_id && one.sequence === each.sequence && one.user === each.user)) continue;
    if (!rows.view.contains(rows.view.querySelector(".grid"))) { go("decisions", { replace: true }); return; }
    rows.prepend(each);
  }
}
