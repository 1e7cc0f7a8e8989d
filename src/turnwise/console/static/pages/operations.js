// Operations: processes, leases, queues, and the sessions that wait or failed.

import { api, part } from "../api.js";
import { chip, empty, h, needs, replace } from "../parts.js";
import { may } from "../shell.js";
import { ago, number, plural, time } from "../text.js";

const EVERY = 3000;

export async function page({ box, signal }) {
  if (!may("metrics:read")) { replace(box, empty("For operators", "Processes and queues are shown to operators and admins.")); return; }
  const processes = h("div", { class: "tablewrap", tabindex: 0 }), figures = h("div", { class: "figures" });
  const sessions = (state) => api.get("recent-sessions", { all_users: true, state, limit: 8 }, signal);
  const list = (text, page, state) => h("section", { class: "section" }, h("h2", null, text, page.sessions.length ? h("small", null, h("a", { href: `sessions?state=${state}` }, "all")) : null),
    page.sessions.length ? h("ul", { class: "plainlist" }, page.sessions.map((each) => h("li", null, h("a", { class: "cut", dir: "auto", href: `sessions/${part(each.id)}?user=${part(each.user)}` }, each.text || each.id), each.agent ? chip(each.agent) : null, time(each.changed_at)))) : h("p", { class: "faint" }, "None lately."));
  const figure = (value, text) => h("div", null, h("b", null, value), h("small", null, text));
  const draw = async () => {
    const now = await api.get("operations", {}, signal);
    replace(figures, figure(number(now.processes.length), now.processes.length === 1 ? "process" : "processes"), figure(number(now.processes.reduce((sum, each) => sum + each.sessions, 0)), "sessions being answered"), figure(number(now.queued_messages), `queued in ${plural(now.queued_sessions, "session")}`), ...now.resting.map((each) => figure(each.agent, each.probing ? "is tried again" : `rests until ${new Date(each.until).toLocaleTimeString()}`)), now.guardrail_threads_stuck ? figure(number(now.guardrail_threads_stuck), "stuck guardrail threads") : null);
    replace(processes, now.processes.length ? h("table", null, h("thead", null, h("tr", null, ["Process", "Started", "Heartbeat", "Sessions"].map((name, i) => h("th", { class: i > 2 ? "n" : "" }, name)))),
      h("tbody", null, now.processes.map((each) => h("tr", null, h("td", null, h("code", null, each.name)), h("td", null, time(each.started_at)), h("td", null, h("span", { class: each.silent_seconds > each.timeout_seconds ? "wrong" : "" }, `${ago(each.silent_seconds)} ago`)), h("td", { class: "n" }, number(each.sessions)))))) : h("p", { class: "faint" }, "No process has answered yet: a process is listed from its first message on."));
  };
  await draw();
  const [running, waiting, failed] = await Promise.all(["running", "waiting", "failed"].map(sessions));
  replace(box, h("div", { class: "narrow wide" }, figures, h("section", { class: "section" }, h("h2", null, "Processes"), processes),
    h("div", { class: "columns" }, list("Waiting for the user", waiting, "waiting"), h("div", { class: "stack" }, list("Running", running, "running"), list("Failed", failed, "failed"))),
    needs("Keys", "are made and revoked with turnwise keys, because a key must not be shown on a page."), needs("Limits and audit", "need the log of what operators did, in the store.")));
  const timer = setInterval(() => document.hidden || draw().catch(() => {}), EVERY);
  signal.addEventListener("abort", () => clearInterval(timer));
}
