// The frame around the pages: addresses, the rail, search, keys, the dialog for a credential.

import { code, h, icon, inRow, replace, small } from "./dom.js";
import { api, auth, ROOT } from "./api.js";
import { dialog, finder } from "./dialogs.js";
import { empty, problem } from "./parts.js";
import { agentNames, may, me } from "./shell.js";

// Addresses change without a load: a relative icon would be looked for below the new one.
const ICON = document.querySelector("link[rel=icon]");
ICON.href = ICON.href;

const GROUPS = [
  ["", [["", "overview", "Overview"]]],
  ["Talk", [["chat", "chat", "Chat"], ["sessions", "sessions", "Sessions"], ["memory", "memory", "Memory"]]],
  ["Understand", [["decisions", "decisions", "Decisions"], ["review", "review", "Review"], ["quality", "quality", "Quality"], ["improve", "improve", "Improve"], ["experiments", "experiments", "Experiments"]]],
  ["Shape", [["agents", "agents", "Agents"], ["policy", "policy", "Policy"], ["flows", "flows", "Flows"]]],
  ["Run", [["operations", "operations", "Operations"]]],
];
const PAGES = GROUPS.flatMap(([, pages]) => pages);
const ON_PHONE = ["", "chat", "sessions", "decisions"];
const LOADERS = Object.fromEntries(PAGES.map(([path, name]) => [path, () => import(`./pages/${name}.js`)]));
const SUB = { sessions: () => import("./pages/session.js"), decisions: () => import("./pages/decision.js"), agents: () => import("./pages/agent.js") };

const rail = h("nav", { class: "rail", "aria-label": "Pages" });
const title = h("div", { class: "title" });
const main = h("main", { id: "main", tabindex: -1 });
let leave = null, pageKeys = [], drawKeys = () => {};

const here = () => location.pathname.slice(ROOT.pathname.length).split("/").filter(Boolean).map(decodeURIComponent);
const link = (path) => new URL(path || "./", ROOT).href;

function drawRail(current) {
  const item = ([path, name, text]) => h("a", { href: link(path), class: path === current ? "here" : "", "aria-current": path === current ? "page" : null, "data-phone": ON_PHONE.includes(path) ? "yes" : null }, icon(name), h("span", null, text));
  replace(rail,
    h("a", { class: "brand", href: link("") }, h("span", { class: "mark" }, icon("decisions")), h("span", null, "Turnwise")),
    GROUPS.map(([name, pages]) => h("div", { class: "group" }, name ? h("p", null, name) : null, pages.map(item))),
    h("button", { class: ON_PHONE.includes(current) ? "more" : "more here", title: "All pages", onclick: () => palette() }, icon("more"), h("span", null, "More")),
    h("div", { class: "foot" },
      h("p", { title: `Policy ${me.policy}, Turnwise ${me.version}` }, h("b", null, me.app), small(`${me.user || "no user"} · ${me.role}`)),
      h("button", { class: "quiet square", "aria-label": "Light or dark", title: "Light or dark", onclick: switchTheme }, icon("theme")),
      me.authenticated ? h("button", { class: "quiet square", "aria-label": "Change the key", title: "Change the key", onclick: async () => { if (await auth.ask()) start(); } }, icon("agents")) : null));
}

function switchTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  try { localStorage.setItem("turnwise.theme", document.documentElement.dataset.theme); } catch { /* not allowed here */ }
}

// ---- pages -----------------------------------------------------------------------------------------------------------

async function show(focus) {
  leave?.abort();
  leave = new AbortController();
  const { signal } = leave, path = here(), [name = "", ...rest] = path;
  const known = PAGES.find(([each]) => each === name);
  pageKeys = [];
  drawRail(name);
  document.title = `${known ? known[2] : "Not found"} · ${me.app || "Turnwise"}`;
  const box = h("div", { class: "page" });
  replace(title, h("h1", null, known ? known[2] : "Not found"));
  replace(main, box);
  if (focus) main.focus({ preventScroll: true });
  const context = {
    box, signal, params: rest, query: new URLSearchParams(location.search), go, link,
    setQuery: (changes) => {
      const query = new URLSearchParams(location.search);
      for (const [key, value] of Object.entries(changes)) value ? query.set(key, value) : query.delete(key);
      history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
      context.query = query;
    },
    title: (text, ...more) => {
      replace(title, h("h1", null, text), ...more);
      document.title = `${text} · ${me.app || "Turnwise"}`;
    },
    keys: (list) => { pageKeys = list; drawKeys(); },
  };
  try {
    if (!known) throw null;
    const { page } = await (rest.length && SUB[name] ? SUB[name]() : LOADERS[name]());
    if (!signal.aborted) await page(context);
  } catch (error) {
    if (signal.aborted || error?.name === "AbortError") return;
    if (!error) replace(box, empty("There is no such page", "The address has no page of the console.", h("a", { class: "button", href: link("") }, "Overview")));
    else replace(box, h("div", { class: "pad" }, problem(error, () => show())));
  }
}

export function go(path, { replace: instead = false } = {}) {
  history[instead ? "replaceState" : "pushState"](null, "", link(path));
  return show(true);
}

document.addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[href]");
  if (!anchor || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || anchor.target) return;
  // Links in pages are relative to the console's root, wherever the page is.
  const given = anchor.getAttribute("href"), url = /^[a-z]+:/.test(given) ? new URL(given) : new URL(given, ROOT);
  if (url.origin !== ROOT.origin || !url.pathname.startsWith(ROOT.pathname)) return;
  event.preventDefault();
  history.pushState(null, "", url);
  show(true);
});
// A relative link opened in another tab would be resolved against the page: make it absolute as soon as it is there.
new MutationObserver(() => {
  for (const anchor of document.querySelectorAll("a[href]:not([href^='http']):not([href^='blob'])")) anchor.href = new URL(anchor.getAttribute("href"), ROOT).href;
}).observe(document.documentElement, { childList: true, subtree: true });
addEventListener("popstate", () => show());

// ---- dialogs ---------------------------------------------------------------------------------------------------------

auth.ask = (reason) => new Promise((done) => {
  if (document.querySelector("dialog.key")) { done(false); return; }
  let given = false;
  const field = h("input", { id: "key", type: "password", autocomplete: "off", required: true, spellcheck: "false" });
  const form = h("form", { method: "dialog", onsubmit: () => { auth.key = field.value.trim(); given = true; } },
    h("h2", null, "A key, please"),
    h("p", null, reason && auth.key ? "The gateway does not accept this key." : "This gateway asks for a key or a token. It stays in this tab and is forgotten when the tab closes."),
    h("label", { for: "key" }, "API key or JSON web token"), field,
    inRow(h("button", { type: "submit", class: "primary" }, "Use it"), small("Make one with ", code("turnwise keys create"))));
  dialog("key", "Key", form, async () => {
    done(given);
    // Another key may have other rights.
    if (given && me.app) try { Object.assign(me, await api.get("me")); drawRail(here()[0] || ""); } catch { /* the page says it */ }
  });
  field.focus();
});

let destinations = [];

function palette() {
  const draw = finder("Go to a page or an agent, or search messages", (given) => {
    const words = given.toLowerCase();
    const found = [...PAGES.map(([path, name, text]) => [text, path, name]), ...destinations.map((name) => [name, `agents/${encodeURIComponent(name)}`, "agents"])]
      .filter(([text]) => text.toLowerCase().includes(words)).slice(0, PAGES.length);
    return words ? [...found, [`Search decisions for “${given}”`, `decisions?words=${encodeURIComponent(given)}`, "search"]] : found;
  }, (path) => go(path));
  // The names of the agents are asked for when they are needed first: the first page does not wait for them.
  if (!destinations.length && may("agents:read")) agentNames().then((names) => { destinations = names; draw(); }, () => {});
}

const WORDS = [
  ["Decision", "which agent answers a message, and why"], ["Confidence", "how sure the decision is, from 0 to 100 %"],
  ["Asks", "the decision was too close, so the user chooses"], ["Stage", "a step of the policy; the first one that chooses decides"],
  ["Label", "the agent that should have answered, as a person said later"],
];

function help() {
  const general = [["/", "search this page, or everything"], ["Ctrl K", "go to a page or an agent"], ["g then c s d r a p o", "Chat, Sessions, Decisions, Review, Agents, Policy, Overview"], ["?", "this list"], ["Esc", "close"]];
  const list = (pairs) => h("dl", { class: "keys" }, pairs.map(([key, what]) => [h("dt", null, key.split(" ").map((each) => (each === "then" ? " then " : h("kbd", null, each)))), h("dd", null, what)]));
  const own = h("div");
  // A page that is still being loaded tells its keys later.
  drawKeys = () => replace(own, pageKeys.length ? [h("h3", null, "On this page"), list(pageKeys.map(([key, what]) => [key, what]))] : null);
  drawKeys();
  const box = dialog("help", "Keys", [h("h2", null, "Keys"), own,
    h("h3", null, "Everywhere"), list(general), h("h3", null, "Words"), h("dl", { class: "words" }, WORDS.map(([word, what]) => [h("dt", null, word), h("dd", null, what)])),
    inRow(h("button", { onclick: () => box.close() }, "Close"))], () => { drawKeys = () => {}; });
}

let prefix = false;
const JUMPS = { c: "chat", s: "sessions", d: "decisions", r: "review", a: "agents", p: "policy", o: "" };
addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "k") { event.preventDefault(); palette(); return; }
  const typing = event.target.matches?.("input, textarea, select, [contenteditable]");
  if (document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
  // A search keeps its words: the list still shows what they found.
  if (event.key === "Escape" && typing) { event.preventDefault(); event.target.blur(); return; }
  if (typing) return;
  const jumps = prefix && event.key in JUMPS;
  prefix = false;
  if (jumps) {
    event.preventDefault();
    go(JUMPS[event.key]);
    return;
  }
  const own = pageKeys.find(([key]) => key === event.key);
  if (own?.[2]) { event.preventDefault(); own[2](event); } else if (event.key === "g") prefix = true;
  else if (event.key === "?") { event.preventDefault(); help(); } else if (event.key === "/") { event.preventDefault(); palette(); }
});

// ---- start -----------------------------------------------------------------------------------------------------------

async function start() {
  try { document.documentElement.dataset.theme = localStorage.getItem("turnwise.theme") || ""; } catch { /* not allowed here */ }
  const top = h("header", { class: "top" }, title,
    h("button", { class: "find", onclick: palette }, icon("search"), h("span", null, "Search"), h("kbd", null, "/")),
    h("button", { class: "quiet square", "aria-label": "Keys and words", title: "Keys and words (?)", onclick: help }, "?"));
  replace(document.getElementById("app"), h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, "To the content"), rail, h("div", { class: "frame" }, top, main));
  try {
    Object.assign(me, await api.get("me"));
  } catch (error) {
    replace(main, h("div", { class: "pad" }, problem(error, start)));
    return;
  }
  show();
}

start();
