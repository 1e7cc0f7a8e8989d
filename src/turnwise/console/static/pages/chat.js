// Chat: talk as any user. The decision is beside each answer before its first word.

import { api, follow, part, Problem } from "../api.js";
import { dialog } from "../dialogs.js";
import { add, chip, code, confidence, empty, h, icon, inRow, labelKeys, problem, replace, samplesOf, small, why } from "../parts.js";
import { agentNames, complain, handoff, may, me, newId, toast, unsaved } from "../shell.js";
import { markdown, methodWords, plural } from "../text.js";
import { waitForm } from "./waits.js";

const PAGE = 60;
// What was typed and did not reach the gateway, by session: it is there again when the session is opened again.
const unsent = new Map();
unsaved.add(() => unsent.size);
const phone = matchMedia("(max-width: 760px)");

export async function page({ box, signal, params, query, go, setQuery, title, keys }) {
  let session = params[0] || newId("console"), user = query.get("user") || "", selected = null, running = null, atEnd = true;
  const asUser = () => (user ? { user } : {});
  const talk = h("div", { class: "talk", role: "log", "aria-label": "Conversation", tabindex: 0 });
  const aside = h("aside", { class: "aside", "aria-label": "Why this agent" });
  const field = h("textarea", { rows: 1, "aria-label": "Your message", placeholder: `Write to ${me.app}…`, id: "message" });
  const button = h("button", { type: "submit", class: "primary", "aria-label": "Send" }, icon("send"));
  const form = h("form", { onsubmit: (event) => { event.preventDefault(); running ? stop() : say(field.value); } }, field, button);
  const split = h("div", { class: "split" }, h("div", { class: "chat" }, talk, h("div", { class: "composer" }, form)));
  replace(box, split);
  const turns = new Map();
  let agents = [], newest = 0;
  if (may("decisions:label")) agentNames().then((found) => { agents = found; }, () => {});

  const path = (rest = "") => `sessions/${part(session)}${rest}`;
  const header = () => {
    const who = me.acts_for_users ? h("button", { class: "quiet", title: "Talk as another user", onclick: changeUser }, `as ${user || me.user || "…"}`) : null;
    title("Chat", code(session), who, h("a", { class: "button push", href: "chat" }, "New"));
  };
  const changeUser = () => {
    const name = h("input", { id: "as", value: user || me.user || "", required: true, autocomplete: "off" });
    dialog("as", "Talk as", h("form", { method: "dialog", onsubmit: () => go(`chat?user=${part(name.value.trim())}`) }, h("h2", null, "Talk as"), inRow(h("label", { for: "as" }, "User"), name, h("button", { type: "submit", class: "primary" }, "New session"))));
  };

  for (const each of [talk, box]) each.addEventListener("scroll", () => { if (each === talk || phone.matches) atEnd = each.scrollHeight - each.scrollTop - each.clientHeight < 80; });
  // On a phone the whole page scrolls.
  const toEnd = () => {
    if (!atEnd) return;
    talk.scrollTop = talk.scrollHeight;
    if (phone.matches && !aside.isConnected) box.scrollTop = box.scrollHeight;
  };
  const grow = () => { field.style.setProperty("height", "auto"); field.style.setProperty("height", `${field.scrollHeight}px`); };
  const place = () => `${params[0] || ""} ${user}`;
  const keep = () => {
    const text = field.value.trim() ? field.value : running?.turn.unsent;
    text ? unsent.set(place(), text) : unsent.delete(place());
  };
  const write = (text) => { field.value = text; grow(); keep(); };
  field.addEventListener("input", () => { grow(); keep(); });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!running) say(field.value);
  });

  // On a phone the panel unfolds below its answer's line, and only when it is asked for.
  const showWhy = async (turn, asked) => {
    if (!turn?.selection) return;
    const folded = phone.matches;
    if (folded && (!asked || (aside.isConnected && selected === turn.key))) {
      aside.remove();
      turn.line.setAttribute("aria-pressed", "false");
      return;
    }
    turns.get(selected)?.box.classList.remove("at");
    for (const each of talk.querySelectorAll(".decided")) each.setAttribute("aria-pressed", each === turn.line ? "true" : "false");
    selected = turn.key;
    turn.box.classList.add("at");
    if (folded) turn.line.after(aside);
    else if (aside.parentNode !== split) split.append(aside);
    const decision = Object.assign(turn.decision ||= {}, { session_id: session, user: user || me.user, sequence: turn.sequence, text: turn.text, selection: turn.selection });
    const draw = () => replace(aside, why(decision, { agents, full: false }));
    draw();
    if (!turn.selection.verdicts.length || (turn.stored && decision.label === undefined && may("decisions:label"))) {
      try {
        Object.assign(decision, await api.get(path(`/decisions/${turn.sequence}`), asUser(), signal));
        turn.selection = decision.selection;
        if (selected === turn.key) draw();
      } catch { /* the short record stays */ }
    }
  };

  // ---- one exchange: a message, its decision, what the agents say, and what they wait for ----

  const lineOf = (turn) => h("button", { class: "decided", "aria-pressed": "false", title: "Why this agent", hidden: true, onclick: () => showWhy(turn, true) });
  const exchange = (event, before) => {
    const turn = { key: event.id, invocation: event.invocation_id, sequence: event.sequence, text: event.text, bodies: h("div"), waits: h("div"), status: h("p", { class: "status", role: "status" }), live: new Map(), seen: new Set(), attempt: event.attempt, stored: Boolean(event.sequence) };
    turn.line = lineOf(turn);
    turn.tools = h("div", { class: "tools" });
    turn.box = h("article", { class: "turn", "aria-label": "Exchange" }, saidLine(event.text), turn.line, turn.bodies, turn.waits, turn.status, turn.tools);
    before ? talk.insertBefore(turn.box, before) : talk.append(turn.box);
    turns.set(turn.key, turn);
    talk.querySelector(".empty")?.remove();
    return turn;
  };
  // Earlier messages are loaded later, so the order is that of the page.
  const inOrder = () => [...turns.values()].sort((a, b) => (a.line.compareDocumentPosition(b.line) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1));
  const decide = (turn, selection) => {
    turn.selection = selection;
    turn.line.hidden = false;
    replace(turn.line, chip(selection.agent, true), h("span", null, methodWords(selection.method)), confidence(selection));
  };
  // A reply within an exchange is decided, too: its line is below it, and the line of the first message stays.
  const replied = (turn, event) => {
    const reply = { key: event.id, sequence: event.sequence, text: textOf(event), box: turn.box, stored: turn.stored };
    reply.line = lineOf(reply);
    add(turn.bodies, turn.echoed || !reply.text ? null : saidLine(reply.text), reply.line);
    turn.echoed = false;
    if (!event.actions.selection) return;
    turns.set(reply.key, reply);
    decide(reply, event.actions.selection);
    turn.latest = reply;
  };
  const actions = (turn) => {
    const tool = (name, text, run) => h("button", { class: "quiet", onclick: run }, icon(name), text);
    replace(turn.tools,
      may("messages:write") ? tool("redo", "Regenerate", () => regenerate(turn)) : null,
      may("sessions:write") ? [tool("rewind", "Rewind", () => rewind(turn)), tool("fork", "Fork", () => fork(turn))] : null,
      h("a", { class: "button quiet", href: `decisions/${part(session)}/${turn.sequence}?user=${part(user || me.user || "")}` }, "Decision"));
  };
  const body = (turn, id, author, branch) => {
    let found = turn.live.get(id);
    if (!found) {
      const other = author !== turn.selection?.agent;
      found = h("div", { class: "answer" }, other ? h("p", { class: "by" }, chip(author)) : null);
      found.text = document.createTextNode("");
      found.append(found.text);
      turn.live.set(id, found);
      turn.bodies.append(found);
    }
    return found;
  };

  const take = (turn, event) => {
    if (event.attempt > turn.attempt) {
      // Another attempt: pieces of the dead one never end.
      turn.attempt = event.attempt;
      for (const [id, node] of turn.live) if (node.classList.contains("live")) { node.remove(); turn.live.delete(id); }
    }
    const from = event.actions.rewind?.from_sequence;
    if (from) for (const [id, node] of turn.live) if (node.sequence >= from) { node.remove(); turn.live.delete(id); }
    newest = Math.max(newest, event.partial ? 0 : event.sequence || 0);
    const again = turn.seen.has(event.id);
    if (!event.partial) turn.seen.add(event.id);
    if (event.author === "user" && turn.selection && event.sequence !== turn.sequence) { if (!again) replied(turn, event); } else if (event.actions.selection) decide(turn, event.actions.selection);
    if (event.author === "user" || (event.branch || "").includes(">")) return;
    const parts = event.content?.parts || [], text = textOf(event);
    if (event.partial) {
      const node = body(turn, event.id, event.author);
      node.classList.add("live");
      node.text.data = node.text.data.slice(0, event.offset ?? node.text.data.length) + text;
      turn.status.textContent = "";
    } else {
      if (text) {
        const node = body(turn, event.id, event.author);
        node.classList.remove("live");
        node.sequence = event.sequence;
        const by = node.querySelector(".by");
        replace(node, by, markdown(text));
      }
      if (!again) extras(turn, event, parts);
      const end = event.actions.end;
      if (end && !["completed", "clarify"].includes(end.reason)) finish(turn, end);
    }
    toEnd();
  };
  // What an event brings besides text.
  const extras = (turn, event, parts) => {
    const choices = parts.find((each) => each.kind === "data" && each.name === "choices" && Array.isArray(each.data));
    if (choices) add(turn.bodies, h("div", { class: "choices" }, choices.data.map((each) => h("button", { title: each.description || null, onclick: () => say(String(each.label || each.agent)) }, String(each.label || each.agent)))));
    for (const call of parts.filter((each) => each.kind === "tool_call")) add(turn.bodies, h("p", { class: "status" }, chip(event.author), " calls ", code(call.tool)));
    for (const file of parts.filter((each) => each.kind === "artifact" || each.kind === "blob")) add(turn.bodies, h("p", { class: "status" }, `File ${file.name || file.mime_type}`));
    if (event.actions.transfer_to) add(turn.bodies, h("p", { class: "status" }, chip(event.author), " passes on to ", chip(event.actions.transfer_to)));
    if (event.error) { turn.failed = event.error.message; add(turn.bodies, h("p", { class: "status bad", dir: "auto" }, turn.failed)); }
  };
  const finish = (turn, end) => {
    turn.status.classList.toggle("bad", end.reason === "failed");
    const told = end.reason === "cancelled" ? "Stopped." : end.detail || `Ended: ${end.reason}.`;
    turn.status.textContent = told === turn.failed ? "" : told;
    for (const node of turn.live.values()) node.classList.remove("live");
  };
  const waits = (turn, open) => {
    replace(turn.waits, open.map((each) => waitForm(each, (given) => answer(turn, each, given))));
    turn.waits.querySelector("input, textarea, button")?.focus({ preventScroll: true });
    toEnd();
  };

  // ---- what the user does ----

  const busy = (turn, controller) => {
    running = controller ? { turn, controller } : null;
    replace(button, icon(running ? "stop" : "send"));
    button.setAttribute("aria-label", running ? "Stop" : "Send");
    if (turn) turn.box.setAttribute("aria-busy", running ? "true" : "false");
  };

  const stream = async (turn, first, again) => {
    const controller = new AbortController();
    signal.addEventListener("abort", () => controller.abort());
    busy(turn, controller);
    try {
      for await (const item of follow(first, again, controller.signal)) {
        if (item.event === "lost") { turn.status.textContent = "Connection lost; trying again…"; continue; }
        if (item.event === "answer") {
          turn.invocation = item.data.invocation_id || turn.invocation;
          turn.status.textContent = "";
          for (const node of turn.live.values()) node.classList.remove("live");
          if (item.data.end && !["completed", "clarify"].includes(item.data.end.reason)) finish(turn, item.data.end);
          if (item.data.error && item.data.error.message !== turn.failed) { turn.status.classList.add("bad"); turn.status.textContent = item.data.error.message; }
          waits(turn, item.data.waits);
          break;
        }
        const event = item.data;
        turn.invocation = event.invocation_id;
        if (event.author === "user" && event.actions.selection && !turn.sequence) {
          turn.sequence = event.sequence;
          turn.unsent = "";
          keep();
          turn.status.textContent = "";
        }
        if (item.event === "event" || item.event === "partial") take(turn, event);
        if (event.actions.selection && event.author === "user") showWhy(turn.latest || turn);
      }
    } catch (error) {
      turn.status.classList.add("bad");
      turn.status.textContent = error instanceof Problem ? `${error.message} ${error.fix}` : String(error);
    } finally {
      if (running?.controller === controller) busy(turn, null);
      // A message that was refused can be changed and sent again.
      if (turn.unsent && !signal.aborted && !field.value.trim()) write(turn.unsent);
      if (turn.sequence) actions(turn);
      toEnd();
    }
  };

  const say = (text) => {
    if (!text.trim() || running) return;
    for (const each of talk.querySelectorAll(".choices")) each.remove();
    for (const each of turns.values()) if (each.waits) replace(each.waits);
    const id = newId("m"), turn = exchange({ id, text, attempt: 1 });
    turn.unsent = text;
    unsent.delete(place());
    if (!params[0]) {
      params[0] = session;
      history.replaceState(null, "", `${location.pathname.replace(/\/$/, "")}/${part(session)}${location.search}`);
    }
    turn.status.textContent = "Deciding…";
    atEnd = true;
    toEnd();
    stream(turn, { path: path("/messages"), method: "POST", query: asUser(), body: { content: text, id }, repeatable: true }, { path: path(`/messages/${part(id)}`), query: asUser() });
    write("");
    field.focus();
  };

  const answer = (turn, wait, given) => {
    replace(turn.waits);
    turn.echoed = Boolean(given.text);
    if (given.text) add(turn.bodies, saidLine(given.text));
    else add(turn.bodies, h("p", { class: "status" }, given.approved === undefined ? "Result sent." : given.approved ? "Approved." : "Declined."));
    const at = path(`/invocations/${part(wait.invocation_id)}`);
    stream(turn, { path: `${at}/answer`, method: "POST", query: asUser(), body: given, repeatable: true }, { path: `${at}/events`, query: asUser() });
  };

  const stop = async () => {
    const { turn } = running || {};
    if (!turn?.invocation) return;
    turn.status.textContent = "Stopping…";
    try {
      await api.post(path(`/invocations/${part(turn.invocation)}/cancel`), undefined, { ...asUser(), wait: false });
    } catch (error) { complain(error); }
  };

  const after = (turn) => {
    const all = inOrder();
    for (const each of all.slice(all.indexOf(turn))) { each.box.remove(); turns.delete(each.key); }
  };
  const regenerate = (turn) => {
    const { text, invocation } = turn;
    after(turn);
    const fresh = exchange({ id: newId("m"), text, attempt: 1 });
    fresh.status.textContent = "Deciding…";
    const at = path(`/invocations/${part(invocation)}`);
    stream(fresh, { path: `${at}/regenerate`, method: "POST", query: asUser() }, { path: path("/events"), query: asUser() });
  };
  const rewind = async (turn) => {
    try {
      await api.post(path("/rewind"), { invocation_id: turn.invocation }, asUser());
    } catch (error) { complain(error); return; }
    write(turn.text);
    after(turn);
    aside.remove();
    field.focus();
    toast("Rewound to before this message. The events stay in the log, hidden.");
  };
  const fork = async (turn) => {
    try {
      const made = await api.post(path("/fork"), { before_invocation_id: turn.invocation }, asUser());
      handoff.text = turn.text;
      go(`chat/${part(made.id)}${user ? `?user=${part(user)}` : ""}`);
    } catch (error) { complain(error); }
  };

  // ---- start ----

  const samples = async () => {
    const known = await api.get("agents", { limit: 50 }, signal).catch(() => ({ agents: [] })), found = samplesOf(known.agents);
    if (signal.aborted || turns.size) return;
    replace(talk, empty("Say something", "The decision appears beside each answer: which agent, how sure, and why."));
    add(talk.firstChild, h("div", { class: "samples" }, found.map((text) => h("button", { onclick: () => say(text) }, text))));
  };

  // Adds the events of the log; a user's message begins an exchange, or answers a wait within one.
  const show = (events, before) => {
    let turn = null;
    const known = new Map([...turns.values()].filter((each) => each.invocation).map((each) => [each.invocation, each]));
    for (const event of events) {
      if (event.author === "user" && event.content) {
        const same = known.get(event.invocation_id);
        if (same && (event.actions.answers || same.sequence === event.sequence)) turn = same; else {
          turn = exchange({ ...event, text: textOf(event) }, before);
          known.set(event.invocation_id, turn);
          actions(turn);
        }
      } else turn = known.get(event.invocation_id) || turn;
      if (turn) take(turn, event);
    }
    return turn;
  };
  const earlier = (first) => {
    if (first <= 1) return;
    const more = inRow(h("button", { class: "quiet", onclick: async () => {
      const page = await api.get(path("/events"), { ...asUser(), before: first, last: PAGE }, signal);
      const next = more.nextSibling, height = talk.scrollHeight;
      more.remove();
      atEnd = false;
      show(page.events, next);
      earlier(page.events[0]?.sequence || 1);
      talk.scrollTop += talk.scrollHeight - height;
    } }, "Earlier messages"));
    talk.prepend(more);
  };

  // Goes on with what runs or waits.
  const goOn = async (status) => {
    for (const id of new Set([...status.running, ...status.waits.map((each) => each.invocation_id)])) {
      const turn = [...turns.values()].find((each) => each.invocation === id);
      if (!turn) continue;
      const state = await api.get(path(`/invocations/${part(id)}`), asUser(), signal);
      const of = { path: path(`/invocations/${part(id)}/events`), query: asUser() };
      if (state.state === "waiting") waits(turn, state.waits);
      else if (state.state === "running") stream(turn, of, of);
    }
  };
  // Who comes back to this tab sees what was said in another one.
  let reading = false;
  const catchUp = async () => {
    if (document.hidden || running || reading || !params[0]) return;
    reading = true;
    try {
      const events = [];
      let after = newest;
      do {
        const page = await api.get(path("/events"), { ...asUser(), after, limit: 200 }, signal);
        events.push(...page.events);
        after = page.next;
      } while (after);
      if (events.length && !running) {
        for (const each of turns.values()) if (each.waits) replace(each.waits);
        const last = show(events);
        if (last) showWhy(last.latest || last);
        await goOn(await api.get(path(), asUser(), signal));
      }
    } catch { /* the next message says what is wrong */ } finally { reading = false; }
  };
  addEventListener("focus", catchUp, { signal });
  document.addEventListener("visibilitychange", catchUp, { signal });

  header();
  keys([["i", "write a message", () => field.focus()], ["n", "new session", () => go("chat")], ["k", "the exchange before", () => step(-1)], ["j", "the exchange after", () => step(1)], ...labelKeys(() => aside)]);
  const step = (by) => {
    const all = inOrder(), at = all.findIndex((each) => each.key === selected), next = all[Math.max(0, Math.min(all.length - 1, (at < 0 ? all.length : at) + by))];
    if (next) { showWhy(next); next.box.scrollIntoView({ block: "nearest" }); next.line.focus({ preventScroll: true }); }
  };
  if (!may("messages:write")) field.disabled = button.disabled = true;
  const given = { ...handoff }, left = given.text ? "" : unsent.get(place());
  Object.assign(handoff, { text: "", send: false });
  if (given.text || left) write(given.text || left);
  if (params[0]) {
    try {
      const page = await api.get(path("/events"), { ...asUser(), last: PAGE }, signal);
      const status = page.events.length ? await api.get(path(), asUser(), signal) : { running: [], waits: [] };
      // A page ends by bytes, too: it may begin after the message that its events answer.
      while (page.events.length && page.events[0].sequence > 1 && !page.events.some((each) => each.author === "user" && each.content)) {
        page.events.unshift(...(await api.get(path("/events"), { ...asUser(), before: page.events[0].sequence, last: PAGE }, signal)).events);
      }
      const last = show(page.events);
      earlier(page.events[0]?.sequence || 1);
      if (last) showWhy(last.latest || last);
      toEnd();
      await goOn(status);
    } catch (error) {
      if (error.name === "AbortError") return;
      talk.append(problem(error));
      return;
    }
  }
  // A message may have been stored although the page was left before the gateway said so.
  if (left && field.value === left && [...turns.values()].at(-1)?.text === left) write("");
  if (!turns.size) { if (given.send) say(field.value); else if (!field.value) await samples(); }
  field.focus({ preventScroll: true });
}

const MOST = 4000;
const textOf = (event) => (event.content?.parts || []).filter((each) => each.kind === "text").map((each) => each.text).join("");
const saidLine = (text) => h("div", { class: "said" }, h("div", { dir: "auto", tabindex: text.length > 600 ? 0 : null }, shortened(text)));
const shortened = (text) => (text.length > MOST ? [text.slice(0, MOST), small(` … ${plural(text.length - MOST, "more character")}`)] : text);
