// One decision, at an address of its own.

import { api, part } from "../api.js";
import { h, labelKeys, replace, why } from "../parts.js";
import { may } from "../shell.js";

export async function page({ box, signal, params, query, title, keys }) {
  const [session, sequence] = params, user = query.get("user");
  const [decision, known] = await Promise.all([
    api.get(`sessions/${part(session)}/decisions/${part(sequence)}`, { user }, signal),
    may("decisions:label") ? api.get("agents", { limit: 200 }, signal) : { agents: [] }]);
  title("Decision", h("code", null, `${session} · ${sequence}`), h("a", { class: "button push", href: `chat/${part(session)}?user=${part(decision.user)}` }, "Open in the chat"));
  const panel = why(decision, { agents: known.agents.map((each) => each.name) });
  keys(labelKeys(() => panel));
  replace(box, h("div", { class: "narrow" }, panel));
}
