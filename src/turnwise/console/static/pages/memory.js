// Memory: what is remembered of a user, searched, added and forgotten.

import { api, part } from "../api.js";
import { chip, empty, h, needs, problem, replace, table } from "../parts.js";
import { may, mayAll, me, toast } from "../shell.js";
import { time } from "../text.js";

const KINDS = { fact: "Fact", entity: "Thing", message: "Message", summary: "Summary" };
const SPANS = { working: "for minutes", short: "for an hour", long: "for good" };

export async function page({ box, signal, query, setQuery, keys, go }) {
  if (!may("memories:read")) return replace(box, needs("Memory needs a right.", "Your key may not read memories (memories:read)."));
  const user = query.get("user") || me.user || "user", words = query.get("words") || "";
  const path = `users/${part(user)}/memories`;
  const change = (changes) => { setQuery(changes); go(`memory${location.search}`, { replace: true }); };
  const search = h("input", { type: "search", value: words, placeholder: "Search the memory", "aria-label": "Search the memory", onchange: () => change({ words: search.value.trim() }) });
  const who = h("input", { type: "search", value: user, placeholder: "User", "aria-label": "User", onchange: () => change({ user: who.value.trim() }) });
  const forget = async (entry) => {
    try {
      await api.delete(path, { id: entry.id });
      toast("Forgotten. Texts in recorded steps are overwritten, too.");
      change({});
    } catch (error) { toast(error.message); }
  };
  const actions = (entry) => (may("memories:write") ? h("button", { type: "button", class: "quiet", "aria-label": `Forget: ${entry.text.slice(0, 60)}`, onclick: (event) => { event.stopPropagation(); forget(entry); } }, "Forget") : "");
  const source = (entry) => (entry.source_session_id ? h("a", { href: `sessions/${part(entry.source_session_id)}?user=${part(user)}`, tabindex: -1 }, time(entry.created_at)) : time(entry.created_at));
  let next, done = false;
  const rows = table({
    label: "Memory", columns: ["What", "Kind", "By", "Kept", "When", "Forget"],
    open: () => {},
    row: (entry) => [
      h("span", { dir: "auto", title: entry.reason || "" }, entry.text), entry.entity ? `${KINDS.entity}: ${entry.entity.type}` : KINDS[entry.kind],
      entry.agent ? chip(entry.agent, true) : entry.said_by, SPANS[entry.span], source(entry), actions(entry),
    ],
    more: async () => {
      if (done) return false;
      const found = words ? (await api.post(`${path}/search`, { query: words, limit: 50 })).found.map((each) => ({ ...each.memory, reason: each.reason })) : null;
      const listed = found ? { memories: found, next: null } : await api.get(path, { after: next, limit: 100 }, signal);
      rows.rows.push(...listed.memories);
      next = listed.next;
      done = !next;
      if (!rows.rows.length) replace(rows.view, words ? empty("Nothing matches", "No entry of this user fits these words.") : empty("Nothing is remembered", "Agents note what matters with context.memory; things that messages name are kept by `memory:` in turnwise.yaml."));
      return !done;
    },
  });
  rows.view.classList.add("memorylist");
  const text = h("input", { type: "text", placeholder: "Add a fact about this user", "aria-label": "A new fact", maxlength: 4000 });
  const form = h("form", { class: "row", onsubmit: async (event) => {
    event.preventDefault();
    if (!text.value.trim()) return;
    try { await api.post(path, { text: text.value.trim() }); change({ words: "" }); } catch (error) { toast(error.message); }
  } }, text, h("button", { class: "primary" }, "Add"));
  keys([["/", "search", () => search.focus()], ["j", "next", () => rows.move(1)], ["k", "previous", () => rows.move(-1)]]);
  replace(box, h("div", { class: "split" }, h("div", { class: "list" },
    h("div", { class: "filters", role: "search" }, search, mayAll("memories:read") ? who : null, may("memories:write") ? form : null), rows.view)));
  try { await rows.load(); } catch (error) { replace(rows.view, problem(error)); }
}
