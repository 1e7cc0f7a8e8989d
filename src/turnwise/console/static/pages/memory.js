// Memory: what is remembered of a user: searched, filtered, shown whole, added and forgotten.

import { api, part } from "../api.js";
import { chip, code, empty, fact, h, icon, problem, replace, select, sessionPath, small, table } from "../parts.js";
import { complain, may, mayAll, me, toast } from "../shell.js";
import { percent, time } from "../text.js";

const KINDS = { fact: "Fact", entity: "Thing", message: "Message", summary: "Summary" };
const SPANS = { working: "for minutes", short: "for an hour", long: "for good" };
const SPEAKERS = { user: "The user", agent: "An agent", tool: "A tool", document: "A document", operator: "An operator" };

const any = (text, names) => [["", text], ...Object.entries(names)];

// Everything that is known of an entry.
function whole(entry, user, forget, close) {
  return [h("header", null, h("h2", null, KINDS[entry.kind]), h("button", { class: "quiet square", "aria-label": "Close", onclick: close }, icon("close"))),
    h("div", { class: "why" }, h("blockquote", { dir: "auto", tabindex: entry.text.length > 600 ? 0 : null }, entry.text),
      h("dl", { class: "facts" }, entry.entity ? fact("Thing", h("span", { dir: "auto" }, `${entry.entity.type}: ${entry.entity.value}`, entry.entity.normal === entry.entity.value ? null : small(` (${entry.entity.normal})`))) : null,
        fact("Said by", entry.agent ? chip(entry.agent) : SPEAKERS[entry.said_by]), fact("Kept", [SPANS[entry.span], entry.expires_at ? [", until ", time(entry.expires_at)] : null]), fact("When", time(entry.created_at)),
        entry.session_id ? fact("Only in", h("a", { href: sessionPath(entry.session_id, user) }, entry.session_id)) : null,
        entry.source_session_id ? fact("From", h("a", { href: sessionPath(entry.source_session_id, user) }, `${entry.source_session_id}${entry.source_sequence ? `, event ${entry.source_sequence}` : ""}`)) : null,
        entry.supersedes.length ? fact("Replaces", `${entry.supersedes.length} older`) : null, entry.reason ? fact("Found by", entry.reason) : null, fact("Id", code(entry.id))),
      may("memories:write") ? h("p", null, h("button", { onclick: () => forget(entry) }, "Forget")) : null)];
}

export async function page({ box, signal, query, setQuery, keys, go, title }) {
  if (!may("memories:read")) { replace(box, empty("Memory needs a right", "This credential may not read memories: it lacks memories:read.")); return; }
  const user = query.get("user") || me.user || "user", words = query.get("words") || "", path = `users/${part(user)}/memories`;
  const filters = { kind: query.get("kind"), span: query.get("span"), said_by: query.get("by") };
  const change = (changes) => { setQuery(changes); go(`memory${location.search}`, { replace: true }); };
  const search = h("input", { type: "search", value: words, placeholder: "Search by words and meaning", "aria-label": "Search the memory", onchange: () => change({ words: search.value.trim() }) });
  const who = h("input", { type: "search", class: "short", value: user, placeholder: "User", "aria-label": "User", onchange: () => change({ user: who.value.trim() }) });
  const split = h("div", { class: "split" }), aside = h("aside", { class: "aside", "aria-label": "The entry" });
  const close = () => { aside.remove(); rows.refresh(); };
  const forget = async (entry) => {
    try {
      await api.delete(path, { id: entry.id });
      toast("Forgotten. Texts in recorded steps are overwritten, too.");
      change({});
    } catch (error) { complain(error); }
  };
  const forgetAll = async () => {
    if (!confirm(`Forget everything of ${user}? It cannot be brought back.`)) return;
    try { const { forgotten } = await api.delete(path); toast(`${forgotten} forgotten.`); change({ words: "" }); } catch (error) { complain(error); }
  };
  title("Memory", h("small", { dir: "auto" }, `of ${user}`), may("memories:write") ? h("button", { class: "quiet push", onclick: forgetAll }, "Forget all") : null);
  const action = (entry) => (may("memories:write") ? h("button", { class: "quiet", "aria-label": `Forget: ${entry.text.slice(0, 60)}`, onclick: (event) => { event.stopPropagation(); forget(entry); } }, "Forget") : "");
  let next, done = false;
  const rows = table({
    label: "Memory", columns: ["What", "Kind", "Said by", "Kept", words ? "Fits" : "When", ""],
    open: (entry) => { replace(aside, whole(entry, user, forget, close)); if (!aside.isConnected) { split.append(aside); rows.refresh(); } },
    row: (entry) => [
      h("span", { dir: "auto", title: entry.text.slice(0, 400) }, entry.text), entry.entity ? `${KINDS.entity}: ${entry.entity.type}` : KINDS[entry.kind],
      entry.agent ? chip(entry.agent, true) : SPEAKERS[entry.said_by], SPANS[entry.span], words ? percent(Math.min(1, entry.score)) : time(entry.created_at), action(entry),
    ],
    more: async () => {
      if (done) return false;
      const among = (name) => (filters[name] ? [filters[name]] : null);
      const found = words ? (await api.post(`${path}/search`, { query: words, limit: 100, kinds: among("kind"), spans: among("span"), said_by: among("said_by") })).found.map((each) => ({ ...each.memory, reason: each.reason, score: each.score })) : null;
      const listed = found ? { memories: found, next: null } : await api.get(path, { ...filters, after: next, limit: 100 }, signal);
      rows.rows.push(...listed.memories);
      next = listed.next;
      done = !next;
      if (!rows.rows.length && done) replace(rows.view, words || Object.values(filters).some(Boolean) ? empty("Nothing matches", "No entry of this user fits.", h("a", { class: "button", href: `memory?user=${part(user)}` }, "Clear the filters"))
        : empty("Nothing is remembered", [code("context.memory"), " keeps what agents note, and ", code("memory:"), " in turnwise.yaml what messages name. You can add a fact below."]));
      return !done;
    },
  });
  rows.view.classList.add("memorylist");
  const text = h("input", { type: "text", placeholder: "Add a fact about this user", "aria-label": "A new fact", maxlength: 4000 }), span = select("How long it is kept", "long", Object.entries(SPANS).reverse(), () => {});
  const add = h("form", { class: "adding", onsubmit: async (event) => {
    event.preventDefault();
    if (!text.value.trim()) return;
    try { await api.post(path, { text: text.value.trim(), span: span.value }); change({ words: "" }); } catch (error) { complain(error); }
  } }, text, span, h("button", { type: "submit", class: "primary" }, "Add"));
  keys([["/", "search", () => search.focus()], ["n", "add a fact", () => text.focus()], ["j", "next", () => rows.move(1)], ["k", "previous", () => rows.move(-1)], ["x", "close the panel", close]]);
  split.append(h("div", { class: "list" },
    h("div", { class: "filters", role: "search" }, search, mayAll("memories:read") ? who : null,
      select("Kind", filters.kind || "", any("Kind", KINDS), (kind) => change({ kind })), select("Kept", filters.span || "", any("Kept", SPANS), (value) => change({ span: value })), select("Said by", filters.said_by || "", any("Said by", SPEAKERS), (by) => change({ by }))),
    rows.view, may("memories:write") ? add : null));
  replace(box, split);
  try { await rows.load(); } catch (error) { replace(rows.view, problem(error)); }
}
