// What pages share with the shell: who I am, short notices, and the next message to try.

import { all, auth } from "./api.js";
import { add, h } from "./dom.js";

export const me = { user: null, role: "user", acts_for_users: false, permissions: {}, app: "", policy: "", version: "", authenticated: false };
export const may = (permission) => permission in me.permissions;
export const mayAll = (permission) => me.permissions[permission] === "all";
export const isOperator = () => me.role !== "user";

// Tell whether something would be lost if the tab was closed now: the browser asks then.
export const unsaved = new Set();
addEventListener("beforeunload", (event) => { if ([...unsaved].some((lost) => lost())) event.preventDefault(); });

const box = h("div", { class: "toasts", role: "status" });

export function toast(text, action) {
  if (!box.isConnected) document.body.append(box);
  const note = h("p", { class: "toast" }, text);
  const end = () => note.remove();
  if (action) add(note, h("button", { class: "quiet", onclick: () => { end(); action[1](); } }, action[0]));
  box.replaceChildren(note);
  setTimeout(end, 6000);
}

export const complain = (error) => toast(`${error.message} ${error.fix || ""}`);

// What one page hands to the next, which stays out of the address: a message to try, and a message that becomes an example
// of an agent: { agent, text }.
export const handoff = { text: "", example: null };

export const newId = (prefix) => `${prefix}-${crypto.randomUUID ? crypto.randomUUID().slice(0, 8) : Math.random().toString(36).slice(2, 10)}`;

const FRESH = 30_000;
let names = { at: 0, key: "", found: null };

// The names of all agents, to label with. Pages that follow one another ask once.
export function agentNames() {
  if (!names.found || names.key !== auth.key || Date.now() - names.at > FRESH) {
    const now = { at: Date.now(), key: auth.key, found: all("agents", "agents").then((list) => list.map((each) => each.name)) };
    now.found.catch(() => { now.found = null; });
    names = now;
  }
  return names.found;
}
