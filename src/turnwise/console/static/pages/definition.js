// The versions of an agent's definition: what changed, drafts, the form that changes it, activating and rolling back.

import { api, part } from "../api.js";
import { add, code, faint, h, inRow, needs, NO_DEFINITIONS, problem, replace, small } from "../parts.js";
import { complain, handoff, may, me, toast } from "../shell.js";
import { number, time } from "../text.js";

const TRIES = 6, EVERY = 250;
const IN_FORM = ["description", "not_for", "examples", "patterns", "enabled"], NOT_CONTENT = ["name", "status", "note"];
const EMPTY = [undefined, null, ""];

const written = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const patternText = (each) => (each.confidence === undefined || each.confidence === null ? each.regex : `${each.regex} @ ${each.confidence}`);
const asText = (key, value) => (key === "patterns" ? patternText(value) : written(value));
const same = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

// What changed from one content to another: [key, taken out, put in].
export function changes(before, after) {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((key) => !NOT_CONTENT.includes(key) && !same(before[key], after[key]));
  return keys.map((key) => {
    const list = (value) => (EMPTY.includes(value) ? [] : Array.isArray(value) ? value : [value]).map((each) => asText(key, each));
    const old = list(before[key]), now = list(after[key]);
    return [key, old.filter((each) => !now.includes(each)), now.filter((each) => !old.includes(each))];
  });
}

const MOST_LINES = 40;

export const diff = (before, after) => {
  const found = changes(before, after);
  if (!found.length) return faint("Nothing changed.");
  const lines = (list, sign, name) => [list.slice(0, MOST_LINES).map((text) => h("p", { class: name, dir: "auto" }, h("span", { "aria-label": sign === "+" ? "put in" : "taken out" }, sign), text.slice(0, 600))), list.length > MOST_LINES ? faint(`and ${number(list.length - MOST_LINES)} more`) : null];
  return h("dl", { class: "diff" }, found.map(([key, old, now]) => [h("dt", null, key.replaceAll("_", " ")), h("dd", null, lines(old, "−", "out"), lines(now, "+", "in"), old.length || now.length ? null : faint("another order"))]));
};

const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

// A line of the form: an expression, and optionally its confidence after " @ ". Other fields of a pattern stay.
function readPatterns(text, known) {
  return lines(text).map((line) => {
    const [, regex, confidence] = /^(.*?)(?:\s@\s(0?\.\d+|[01](?:\.0+)?))?$/.exec(line), before = known.find((each) => each.regex === regex) || {};
    return confidence === undefined ? { ...before, regex } : { ...before, regex, confidence: Number(confidence) };
  });
}

function form(base, { onsave, onclose, example }) {
  const field = (label, node, hint) => { node.id = `f-${label.replace(/\W/g, "")}`; return h("div", { class: "field" }, h("label", { for: node.id }, label, hint ? small(` ${hint}`) : null), node); };
  const area = (value, rows) => h("textarea", { rows, value: value || "", dir: "auto" });
  const description = area(base.description, 3), notFor = area(base.not_for, 2), examples = area([...(base.examples || []), ...(example ? [example] : [])].join("\n"), 8), patterns = area((base.patterns || []).map(patternText).join("\n"), 4);
  const rest = Object.fromEntries(Object.entries(base).filter(([key]) => ![...IN_FORM, ...NOT_CONTENT].includes(key)));
  const others = area(Object.keys(rest).length ? JSON.stringify(rest, null, 2) : "", 6), enabled = h("input", { type: "checkbox", id: "f-enabled", checked: base.enabled !== false }), note = h("input", { type: "text", maxlength: 2000, value: example ? "A message that went to another agent" : "" });
  const told = h("div", { role: "status" });
  const edited = () => {
    const now = { ...base, description: description.value.trim(), not_for: notFor.value.trim(), examples: lines(examples.value), patterns: readPatterns(patterns.value, base.patterns || []), enabled: enabled.checked };
    const given = others.value.trim() ? JSON.parse(others.value) : {};
    for (const key of new Set([...Object.keys(rest), ...Object.keys(given)])) now[key] = given[key] ?? null;
    const like = { enabled: true, examples: [], patterns: [], description: "", not_for: "", ...base };
    return Object.fromEntries(Object.entries(now).filter(([key, value]) => !same(value, like[key])));
  };
  const save = async (status) => {
    let changed;
    try { changed = edited(); } catch { replace(told, h("p", { class: "problem" }, "The other fields are no JSON object.")); return; }
    if (!Object.keys(changed).length) { replace(told, h("p", null, "Nothing was changed.")); return; }
    try { await onsave({ ...changed, status, note: note.value.trim() }); } catch (error) { replace(told, problem(error)); }
  };
  const preview = () => { try { replace(told, diff(base, { ...base, ...edited() })); } catch { replace(told, h("p", { class: "problem" }, "The other fields are no JSON object.")); } };
  return h("form", { class: "box editor", onsubmit: (event) => { event.preventDefault(); save("draft"); } },
    field("Description", description, "what it does, for people and models"), field("Not for", notFor, "what it does not do"),
    h("div", { class: "columns" }, field("Examples", examples, "one message a line"), field("Patterns", patterns, "one RE2 expression a line; its confidence after “ @ ”")),
    inRow(enabled, h("label", { for: "f-enabled" }, "Takes messages")),
    h("details", null, h("summary", null, "Other fields"), field("JSON", others, "roles, tags, skills, parent, made_by …")),
    field("Note", note, "why, for the history"), told,
    inRow(h("button", { type: "submit", class: "primary" }, "Save a draft"), h("button", { onclick: () => save("active") }, "Save and serve"), h("button", { class: "quiet", onclick: preview }, "What changes"), h("button", { class: "quiet", onclick: onclose }, "Cancel")));
}

// Fills `box` with the definition of an agent. `agent` is its card as it serves, or null.
export async function definition(box, name, agent, { signal, go, example = "" }) {
  const path = `agents/${part(name)}`;
  if (!me.definitions) { replace(box, needs("Drafts and history", NO_DEFINITIONS)); return; }
  const page = await api.get(`${path}/versions`, { limit: 50 }, signal);
  const versions = page.definitions, newest = versions[0], serving = versions.find((each) => each.status !== "draft");
  const served = serving?.status === "active" ? serving : null;
  let retired = false;
  const editing = h("div"), again = () => go(path, { replace: true });
  // The card as it serves now. An agent that comes or goes has none to compare.
  const card = async () => (agent && !retired ? api.get(path, {}, signal).then(JSON.stringify, () => "") : "");
  // Draws the page again when the agent serves as changed, so that it shows what users get, and returns whether it was seen to.
  const whenServed = async (before) => {
    let serves = false;
    for (let i = 0; i < TRIES && !serves && !signal.aborted; i += 1) {
      await new Promise((done) => setTimeout(done, EVERY));
      const now = await card();
      serves = Boolean(before && now && now !== before);
    }
    if (!signal.aborted) await again();
    return serves;
  };
  const act = (text, run) => async () => {
    try { const before = await card(); await run(); toast(text); await whenServed(before); } catch (error) { if (error.name !== "AbortError") complain(error); }
  };
  const fromCard = agent?.matching ? { description: agent.description, examples: agent.matching.examples, patterns: agent.matching.patterns.map(({ regex, confidence }) => ({ regex, confidence })) } : {};
  const save = async (content) => {
    const before = await card();
    if (newest) await api.change("PATCH", path, newest.version, content);
    else await api.post("agents", { name, ...content });
    if (content.status === "draft") { toast("The draft is stored. Nothing changed for users."); again(); return; }
    replace(editing, h("p", { class: "faint", role: "status" }, "It serves within a second…"));
    const serves = await whenServed(before);
    toast(serves ? "It serves now." : "It is stored; it serves as soon as the processes have read it.", example ? ["Try the message", () => { handoff.text = example; go("policy"); }] : null);
  };
  const edit = () => {
    const start = newest ? { ...fromCard, ...newest.content } : fromCard;
    replace(editing, form(start, { onsave: save, onclose: () => replace(editing), example }));
    editing.querySelector(example ? "#f-Examples" : "textarea").focus();
  };
  const writes = may("definitions:write");
  const row = (each, i) => {
    const before = versions.slice(i + 1).find((one) => one.status === "active"), isDraft = each.status === "draft";
    return h("li", { class: "version" },
      inRow(h("b", null, `Version ${each.version}`), h("span", { class: `tag ${each === served ? "serves" : each.status}` }, each === served ? "serves" : each.status === "active" ? "earlier" : each.status), h("span", { class: "faint" }, each.author, " · "), each.created_at ? time(each.created_at) : null,
        h("span", { class: "push row" },
          writes && isDraft && each === newest ? h("button", { class: "primary", onclick: act("It serves within a second, in every process.", () => api.change("POST", `${path}/activate`, newest.version, { version: each.version })) }, "Serve it") : null,
          writes && each.status === "active" && each !== served ? h("button", { onclick: act(`Version ${each.version} serves again, as a new version.`, () => api.change("POST", `${path}/rollback`, newest.version, { version: each.version })) }, "Roll back to it") : null)),
      each.note ? h("p", { dir: "auto" }, each.note) : null,
      each.unknown_fields?.length ? h("p", { class: "wrong" }, `A newer release wrote ${each.unknown_fields.join(", ")}: this one does not serve it.`) : null,
      h("details", { open: isDraft && each === newest }, h("summary", null, before ? `Compared with version ${before.version}` : "What it defines"), diff(before?.content || {}, each.content)));
  };
  const retire = () => confirm(`Take the definition of ${name} out of service? ${agent ? "An agent in code is then as in code." : ""} Its versions stay.`) && act("Retired. Its versions stay.", () => { retired = true; return api.change("DELETE", path, newest.version); })();
  replace(box, h("section", { class: "section" },
    h("h2", null, "Definition", small(served ? `version ${served.version} serves` : newest ? "a draft; code serves" : "none: the card comes from code or YAML"),
      writes ? h("span", { class: "push row" }, h("button", { onclick: edit }, newest?.status === "draft" ? "Change the draft" : "Edit"), served ? h("button", { class: "quiet", onclick: retire }, "Retire") : null) : null),
    editing, versions.length ? h("ol", { class: "plainlist versions" }, versions.map(row)) : null));
  if (example && writes) edit();
  if (page.next) add(box, faint("Older versions: ", code(`turnwise agents history ${name}`)));
}
