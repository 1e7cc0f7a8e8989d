// Words and numbers as people read them, and a safe subset of Markdown.

import { h } from "./dom.js";

const METHODS = {
  direct_routing: "named by the caller",
  strong_intent_match: "matched a pattern",
  semantic_match: "nearest in meaning",
  conversational: "small talk",
  conversational_fallback: "small talk",
  smalltalk: "small talk",
  default_fallback: "the default",
  lead_fallback: "the lead",
  resume: "resumed",
  reply: "answers its question",
  tool_result: "waits for this result",
  clarify: "asks which one",
  clarified: "chosen by the user",
  clarified_by_meaning: "chosen by the user",
  clarify_declined: "the user declined",
  clarify_skipped: "the better of two",
  contextual_route: "routed by meaning",
  contextual_stay: "stays",
  contextual_leave: "changed agent",
  contextual_return: "back to this agent",
  iterative: "next in turn",
  identity: "named itself",
  popcorn: "named by the task before",
  round_robin: "next in turn",
  first: "has a ready task",
};

export const methodWords = (method) => METHODS[method] || method.replaceAll("_", " ");
export const percent = (value) => `${Math.round(value * 100)} %`;
export const number = (value) => value.toLocaleString("en-US");
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
export const ms = (value) => (value >= 1000 ? `${(value / 1000).toFixed(1)} s` : `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`);

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

// A moment in the reader's zone; the title has all of it.
export function time(iso) {
  const date = new Date(iso);
  const today = date.toDateString() === new Date().toDateString();
  return h("time", { datetime: iso, title: FULL.format(date) }, (today ? CLOCK : DAY).format(date));
}

export function ago(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
}

const MOST = 20000;
const INLINE = /(`[^`\n]+`)|(\*\*[^*\n]+\*\*)|(\*[^*\s][^*\n]*\*)|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)/g;

function inline(text) {
  const found = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > from) found.push(text.slice(from, match.index));
    const [whole, code, strong, em, label, link] = match;
    if (code) found.push(h("code", null, code.slice(1, -1)));
    else if (strong) found.push(h("strong", null, strong.slice(2, -2)));
    else if (em) found.push(h("em", null, em.slice(1, -1)));
    else found.push(h("a", { href: link, rel: "noreferrer noopener", target: "_blank" }, label));
    from = match.index + whole.length;
  }
  if (from < text.length) found.push(text.slice(from));
  return found;
}

const ITEM = /^\s*(?:[-*]|(\d+)[.)])\s+(.*)$/;

// Paragraphs, lists, code, emphasis and https links. Everything else, HTML above all, stays the text that it is.
export function markdown(text) {
  const cut = text.length > MOST;
  const blocks = [], lines = (cut ? text.slice(0, MOST) : text).split("\n");
  let paragraph = [];
  const flush = () => {
    if (paragraph.length) blocks.push(h("p", { dir: "auto" }, paragraph.flatMap((line, i) => (i ? [h("br"), ...inline(line)] : inline(line)))));
    paragraph = [];
  };
  for (let i = 0; i < lines.length; i += 1) {
    const line = lines[i];
    if (/^\s*```/.test(line)) {
      flush();
      const code = [];
      while (++i < lines.length && !/^\s*```/.test(lines[i])) code.push(lines[i]);
      blocks.push(h("pre", { tabindex: 0 }, h("code", null, code.join("\n"))));
    } else if (ITEM.test(line)) {
      flush();
      const [, start] = ITEM.exec(line);
      const items = [];
      for (; i < lines.length && ITEM.test(lines[i]); i += 1) items.push(h("li", null, inline(ITEM.exec(lines[i])[2])));
      i -= 1;
      blocks.push(h(start === undefined ? "ul" : "ol", { start, dir: "auto" }, items));
    } else if (!line.trim()) flush();
    else paragraph.push(line);
  }
  flush();
  if (cut) blocks.push(rest(text));
  return blocks;
}

// A long text is cut; a button shows the rest as plain text.
function rest(text) {
  const button = h("button", { class: "quiet", onclick: () => button.replaceWith(h("pre", { class: "plain", tabindex: 0 }, text.slice(MOST))) },
    `Show ${plural(text.length - MOST, "more character")}`);
  return button;
}
