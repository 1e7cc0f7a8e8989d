// Sessions: found by recency, user, words and state.

import { api } from "../api.js";
import { chatPath, chip, empty, h, replace, searchField, select, sessionPath, table } from "../parts.js";
import { mayAll, me } from "../shell.js";
import { time } from "../text.js";

const STATES = [["", "State"], ["running", "Running"], ["waiting", "Waiting"], ["completed", "Completed"], ["clarify", "Asked the user"], ["failed", "Failed"], ["cancelled", "Stopped"]];
const WORDS = Object.fromEntries(STATES);

export const stateText = (state) => h("span", { class: `state ${state || ""}` }, WORDS[state] || state || "–");

export async function page({ box, signal, query, setQuery, keys, go }) {
  let next;
  const everybody = mayAll("sessions:read") && !query.get("user");
  const filters = { words: query.get("words"), state: query.get("state"), user: query.get("user"), all_users: everybody };
  const seen = new Set();
  const change = (changes) => { setQuery(changes); go(`sessions${location.search}`, { replace: true }); };
  const search = searchField("Words of a message", filters.words || "", (words) => change({ words }), () => rows);
  const user = h("input", { type: "search", class: "short", value: filters.user || "", placeholder: "User", "aria-label": "User" });
  user.addEventListener("change", () => change({ user: user.value.trim() }));
  const rows = table({
    label: "Sessions", columns: ["Begins with", "Last message", "Agent", "State", "When"],
    row: (each) => [h("a", { href: sessionPath(each.id, each.user), dir: "auto", tabindex: -1 }, each.title || each.id), h("span", { dir: "auto", class: "faint" }, each.text === each.title ? "" : each.text), each.agent ? chip(each.agent, true) : "–", stateText(each.state), time(each.changed_at)],
    open: (each) => { if (rows.opening) go(sessionPath(each.id, each.user)); },
    more: async () => {
      const page = await api.get("recent-sessions", { ...filters, after: next, limit: 100 }, signal);
      for (const each of page.sessions) if (!seen.has(`${each.user}/${each.id}`)) { seen.add(`${each.user}/${each.id}`); rows.rows.push(each); }
      next = page.next;
      if (!rows.rows.length && !next) replace(rows.view, filters.words || filters.state || filters.user ? empty("Nothing matches", "No session has all of these properties.", h("a", { class: "button", href: "sessions" }, "Clear the filters")) : empty("No sessions yet", "The first message begins one.", h("a", { class: "button primary", href: "chat" }, "Open the chat")));
      return Boolean(next);
    },
  });
  rows.view.classList.add("sessionlist");
  rows.view.addEventListener("click", () => { rows.opening = true; }, true);
  rows.view.addEventListener("keydown", (event) => { rows.opening = event.key === "Enter"; }, true);
  keys([["/", "search", () => search.focus()], ["j", "next", () => { rows.opening = false; rows.move(1); }], ["k", "previous", () => { rows.opening = false; rows.move(-1); }], ["o", "open in the chat", () => rows.current && go(chatPath(rows.current.id, rows.current.user))]]);
  replace(box, h("div", { class: "split" }, h("div", { class: "list" }, h("div", { class: "filters", role: "search" }, search, mayAll("sessions:read") ? user : null, select("State", filters.state || "", STATES, (state) => change({ state }))), rows.view)));
  search.resume();
  await rows.load();
  return me;
}
