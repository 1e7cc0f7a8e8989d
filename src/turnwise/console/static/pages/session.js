// One session as a timeline: its events, state, files and decisions.

import { api, part } from "../api.js";
import { chatPath, chip, code, confidence, empty, fact, faint, h, plainlist, problem, replace, section, small, wide } from "../parts.js";
import { complain, may, me } from "../shell.js";
import { methodWords, plural, time } from "../text.js";
import { stateText } from "./sessions.js";

const PAGE = 100, MOST = 2000;

function what(event, session, user) {
  const parts = event.content?.parts || [], actions = event.actions, found = [];
  for (const each of parts) {
    if (each.kind === "text") found.push(h("p", { dir: "auto", tabindex: each.text.length > 600 ? 0 : null }, each.text.slice(0, MOST), each.text.length > MOST ? small(` … ${plural(each.text.length - MOST, "more character")}`) : null));
    else if (each.kind === "thinking") found.push(faint(each.text || "thinks"));
    else if (each.kind === "tool_call") found.push(h("p", null, "calls ", code(`${each.tool}(${JSON.stringify(each.arguments).slice(0, 400)})`)));
    else if (each.kind === "tool_result") found.push(h("p", null, each.failed ? "error " : "result ", code((JSON.stringify(each.result) ?? "").slice(0, 400))));
    else if (each.kind === "data") found.push(faint(each.name || "data", " ", code(JSON.stringify(each.data).slice(0, 400))));
    else found.push(faint(`${each.kind} ${each.name || each.mime_type || ""}`));
  }
  if (actions.selection) found.push(h("p", { class: "row" }, h("a", { href: `decisions/${part(session)}/${event.sequence}?user=${part(user)}` }, "decided"), chip(actions.selection.agent), methodWords(actions.selection.method), confidence(actions.selection)));
  if (actions.transfer_to) found.push(h("p", null, "passes on to ", chip(actions.transfer_to)));
  if (actions.awaits) found.push(h("p", { class: "state waiting" }, `waits for ${actions.awaits.kind === "reply" ? "a reply" : "a result"}`));
  if (Object.keys(actions.state_delta).length) found.push(h("p", null, "writes ", code(JSON.stringify(actions.state_delta).slice(0, 400))));
  if (actions.blocked_by) found.push(h("p", { class: "wrong" }, `blocked by ${actions.blocked_by}`));
  if (actions.rewind) found.push(faint(`rewinds to before ${actions.rewind.from_sequence}`));
  if (event.error) found.push(h("p", { class: "wrong", dir: "auto" }, event.error.message));
  if (actions.end && actions.end.reason !== "completed") found.push(faint(`ends: ${actions.end.reason} ${actions.end.detail}`));
  return found.length ? found : faint(actions.end ? "ends" : "–");
}

export async function page({ box, signal, params, query, go, title }) {
  const [session] = params, user = query.get("user"), path = `sessions/${part(session)}`, as = { user };
  const status = await api.get(path, as, signal);
  const [state, files] = await Promise.all([api.get(`${path}/state`, as, signal), me.artifacts ? api.get(`${path}/artifacts`, as, signal).then((each) => each.artifacts) : []]);
  const remove = async () => {
    if (!confirm(`Delete session ${session} with its log, decisions and files?`)) return;
    try { await api.delete(path, as); go("sessions"); } catch (error) { complain(error); }
  };
  title("Session", code(session), h("span", { class: "actions push" }, may("sessions:write") ? h("button", { class: "quiet", onclick: remove }, "Delete") : null, h("a", { class: "button", href: chatPath(session, status.user) }, "Open in the chat")));
  const list = h("ol", { class: "timeline plain" }), more = h("p");
  const row = (event) => h("li", null, h("span", { class: "n" }, event.sequence), time(event.created_at), event.author === "user" ? h("b", null, "user") : chip(event.author),
    h("div", { class: "what" }, what(event, session, status.user), h("details", null, h("summary", null, "Record"), h("pre", { tabindex: 0 }, JSON.stringify({ ...event, actions: Object.fromEntries(Object.entries(event.actions).filter(([name, value]) => name !== "selection" && value && (typeof value !== "object" || Object.keys(value).length))) }, null, 1).slice(0, 20000)))));
  const load = async (before) => {
    const page = await api.get(`${path}/events`, { ...as, before, last: PAGE }, signal);
    list.prepend(...page.events.map(row));
    const first = page.events[0]?.sequence || 1;
    replace(more, first > 1 ? h("button", { onclick: () => load(first) }, `Earlier events (${first - 1})`) : null);
  };
  replace(box, wide(
    h("dl", { class: "facts" }, fact("Session", code(session)), fact("User", h("a", { href: `sessions?user=${part(status.user)}` }, status.user)), fact("State", stateText(status.running.length ? "running" : status.waits.length ? "waiting" : "completed")),
      fact("Began", time(status.created_at)), fact("Last change", time(status.updated_at)), fact("Messages", String(status.turns)), status.active_agent ? fact("Active agent", chip(status.active_agent)) : null,
      status.holder ? fact("Process", code(status.holder)) : null, fact("Decisions", h("a", { href: `decisions?session=${part(session)}&user=${part(status.user)}` }, "All of this session"))),
    section("Events", plural(status.last_sequence, "event"), more, list),
    Object.keys(state.state).length ? section("State", null, h("pre", { tabindex: 0 }, JSON.stringify(state.state, null, 2))) : null,
    files.length ? section("Files", null, plainlist(files.map((each) => h("li", null, h("span", { class: "grow" }, each.name), small(`version ${each.version}, ${each.mime_type}, ${each.size} bytes`))))) : null));
  if (!status.last_sequence) { replace(list, h("li", null, empty("No events", "Nothing was said in this session yet."))); return; }
  await load().catch((error) => { if (error.name !== "AbortError") replace(more, problem(error)); });
}
