// What a user is asked to answer: questions, approvals and results.

import { chip, h, inRow } from "../parts.js";

// Returns the form of a wait; it tells `send(path, body)` what he said.
export function waitForm(wait, send) {
  const reply = (body) => send({ call_id: wait.call_id, ...body });
  if (wait.kind === "confirmation") {
    return h("form", { class: "waitbox", onsubmit: (event) => event.preventDefault() },
      h("p", null, chip(wait.agent), " wants to call ", h("code", null, wait.tool), "."),
      Object.keys(wait.arguments).length ? h("pre", { tabindex: 0 }, JSON.stringify(wait.arguments, null, 2)) : null,
      inRow(h("button", { class: "primary", onclick: () => reply({ approved: true }) }, "Approve"),
        h("button", { onclick: () => reply({ approved: false }) }, "Decline")));
  }
  if (wait.kind === "tool_result") {
    const field = h("textarea", { rows: 2, "aria-label": `Result of ${wait.tool}`, placeholder: "The result: text or JSON" });
    return h("form", { class: "waitbox", onsubmit: (event) => {
      event.preventDefault();
      let result = field.value;
      try { result = JSON.parse(field.value); } catch { /* plain text */ }
      reply({ result });
    } }, h("p", null, chip(wait.agent), " waits for the result of ", h("code", null, wait.tool), "."),
      h("pre", { tabindex: 0 }, JSON.stringify(wait.arguments, null, 2)), field, h("p", null, h("button", { type: "submit", class: "primary" }, "Send the result")));
  }
  const field = h("input", { "aria-label": wait.text || "Your reply", placeholder: "Your reply", required: true, autocomplete: "off" });
  return h("form", { class: "waitbox", onsubmit: (event) => { event.preventDefault(); reply({ text: field.value }); } },
    h("p", null, chip(wait.agent), " waits for a reply."), inRow(field, h("button", { type: "submit", class: "primary" }, "Reply")));
}
