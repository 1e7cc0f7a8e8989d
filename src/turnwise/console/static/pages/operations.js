// Operations: processes, leases, queues, and the sessions that wait or failed.

import { api, part } from "../api.js";
import { chip, code, faint, figure, forOperators, h, needs, plainlist, replace, section, sessionPath, wide } from "../parts.js";
import { may, me } from "../shell.js";
import { ago, number, plural, time } from "../text.js";

const EVERY = 3000;

// Who did what to whose data, and who changed which definition, newest first.
async function log(box, signal) {
  const entries = (await api.get("audit", { limit: 20 }, signal)).entries.map((each) => ({ at: each.at, who: each.actor, what: each.action.split(".").reverse().join(" ").replaceAll("_", " "), of: [each.user, each.session_id].filter(Boolean).join(", ") }));
  const changed = me.definitions && may("definitions:read") ? await api.get("definitions/changes", { limit: 20 }, signal).then((page) => page.changes, () => []) : [];
  entries.push(...changed.map((each) => ({ at: each.created_at, who: each.author, what: `changed ${each.fields.slice(0, 4).join(", ") || "the status"}`, of: h("a", { href: each.kind === "agent" ? `agents/${part(each.name)}` : "policy" }, `${each.kind} ${each.name}, version ${each.after}`), note: each.note })));
  entries.sort((a, b) => (a.at < b.at ? 1 : -1));
  replace(box, section("Audit", [code("turnwise audit"), " has all of it"],
    entries.length ? h("ul", { class: "plainlist audit" }, entries.slice(0, 20).map((each) => h("li", null, time(each.at), h("span", null, each.who), h("span", { class: "grow", dir: "auto" }, h("b", null, each.what), " ", each.of, each.note ? h("span", { class: "faint" }, ` “${each.note}”`) : null)))) : faint("Nothing was changed, exported or erased yet.")));
}

export async function page({ box, signal }) {
  if (!may("metrics:read")) { replace(box, forOperators("Processes and queues are")); return; }
  const audit = h("div"), processes = h("div", { class: "tablewrap", tabindex: 0 }), figures = h("div", { class: "figures" });
  const sessions = (state) => api.get("recent-sessions", { all_users: true, state, limit: 8 }, signal);
  const list = (text, page, state) => section(text, page.sessions.length ? h("a", { href: `sessions?state=${state}` }, "all") : null,
    page.sessions.length ? plainlist(page.sessions.map((each) => h("li", null, h("a", { class: "cut", dir: "auto", href: sessionPath(each.id, each.user) }, each.text || each.id), each.agent ? chip(each.agent) : null, time(each.changed_at)))) : faint("None lately."));
  const draw = async () => {
    const now = await api.get("operations", {}, signal);
    replace(figures, figure(number(now.processes.length), now.processes.length === 1 ? "process" : "processes"), figure(number(now.processes.reduce((sum, each) => sum + each.sessions, 0)), "sessions being answered"), figure(number(now.queued_messages), `queued in ${plural(now.queued_sessions, "session")}`), ...now.resting.map((each) => figure(each.agent, each.probing ? "is tried again" : `rests until ${new Date(each.until).toLocaleTimeString()}`)), now.guardrail_threads_stuck ? figure(number(now.guardrail_threads_stuck), "stuck guardrail threads") : null);
    replace(processes, now.processes.length ? h("table", null, h("thead", null, h("tr", null, ["Process", "Started", "Heartbeat", "Sessions"].map((name, i) => h("th", { class: i > 2 ? "n" : "" }, name)))),
      h("tbody", null, now.processes.map((each) => h("tr", null, h("td", null, code(each.name)), h("td", null, time(each.started_at)), h("td", null, h("span", { class: each.silent_seconds > each.timeout_seconds ? "wrong" : "" }, `${ago(each.silent_seconds)} ago`)), h("td", { class: "n" }, number(each.sessions)))))) : faint("No process has answered yet: a process is listed from its first message on."));
  };
  await draw();
  const [running, waiting, failed] = await Promise.all(["running", "waiting", "failed"].map(sessions));
  replace(box, wide(figures, section("Processes", null, processes),
    h("div", { class: "columns" }, list("Waiting for the user", waiting, "waiting"), h("div", { class: "stack" }, list("Running", running, "running"), list("Failed", failed, "failed"))),
    audit, h("div", { class: "stack" }, needs("Keys", h("span", null, "are made and revoked with ", code("turnwise keys"), ", because a key must not be shown on a page.")), needs("Limits", h("span", null, "are in turnwise.yaml under ", code("gateway.limits"), "; ", code("GET /metrics"), " counts what they refused.")))));
  if (may("audit:read")) await log(audit, signal);
  const again = () => document.hidden || draw().catch(() => {}), timer = setInterval(again, EVERY);
  document.addEventListener("visibilitychange", again, { signal });
  signal.addEventListener("abort", () => clearInterval(timer));
}
