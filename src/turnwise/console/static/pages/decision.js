// One decision, at an address of its own.

import { api, part } from "../api.js";
import { chatPath, h, labelKeys, replace, why } from "../parts.js";
import { agentNames, may } from "../shell.js";

export async function page({ box, signal, params, query, title, keys }) {
  const [session, sequence] = params, user = query.get("user");
  const [decision, agents] = await Promise.all([
    api.get(`sessions/${part(session)}/decisions/${part(sequence)}`, { user }, signal),
    may("decisions:label") ? agentNames() : []]);
  title("Decision", h("code", null, `${session} · ${sequence}`), h("a", { class: "button push", href: chatPath(session, decision.user) }, "Open in the chat"));
  const panel = why(decision, { agents });
  keys(labelKeys(() => panel));
  replace(box, h("div", { class: "narrow" }, panel));
}
