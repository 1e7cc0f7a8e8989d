// Overview: three messages to try for a newcomer; traffic and what needs a look for an operator.

import { api, newDecisions, part } from "../api.js";
import { add, chart, chip, confidence, decisionPath, empty, figure, h, replace, said, samplesOf, section, shares, wide } from "../parts.js";
import { handoff, isOperator, may, me } from "../shell.js";
import { methodWords, number, percent, time } from "../text.js";

const LATEST = 8;

export async function page({ box, signal, go, title }) {
  title("Overview", h("small", null, `${me.app}, Turnwise ${me.version}`));
  const [counts, known, { decisions }] = await Promise.all([api.get("decision-counts", {}, signal), api.get("agents", { limit: 200 }, signal), api.get("decisions", { slim: true, limit: LATEST }, signal)]);
  const samples = h("div", { class: "samples" }, samplesOf(known.agents).map((text) => h("button", { onclick: () => { Object.assign(handoff, { text, send: true }); go("chat"); } }, text)));
  if (!counts.total) {
    replace(box, empty(`${me.app} is ready`, `It has ${known.agents.length} agents and the policy ${me.policy}. Send it a message, and see which agent answers, how sure the decision is, and why.`));
    add(box.firstChild, samples);
    return;
  }
  const asks = counts.outcomes.find((each) => each.name === "clarify")?.count || 0;
  const low = counts.confidence.filter((each) => Number(each.name) < 5).reduce((sum, each) => sum + each.count, 0);
  const labelled = counts.agents.reduce((sum, each) => sum + each.labelled, 0), wrong = counts.agents.reduce((sum, each) => sum + each.contradicted, 0);
  const latest = h("ul", { class: "plainlist latest" });
  const line = (each) => h("li", null, h("a", { class: "cut", dir: "auto", href: decisionPath(each) }, said(each)), chip(each.selection.agent), h("small", null, methodWords(each.selection.method)), confidence(each.selection), time(each.created_at));
  replace(box, wide(
    h("div", { class: "figures" },
      figure(number(counts.total), counts.complete ? "decisions" : `newest decisions, of more`, "decisions"),
      figure(percent(asks / counts.total), "asked the user which agent", "decisions?outcome=clarify"),
      figure(number(low), "were less than 50 % sure", "decisions?sure=0-0.5"),
      may("decisions:label") ? figure(number(wrong), `wrong of ${number(labelled)} labelled`, "decisions?labels=wrong") : null,
      figure(String(known.agents.length), "agents", "agents")),
    section("Traffic", "orange: the user was asked", chart(counts.times, counts.seconds)),
    h("div", { class: "columns" },
      section("Who answers", null, shares(counts.agents, counts.total, (each) => h("a", { href: `decisions?agent=${part(each.name)}` }, each.name))),
      section("How it is decided", null, shares(counts.methods, counts.total, (each) => h("a", { href: `decisions?method=${part(each.name)}` }, methodWords(each.name))))),
    section(h("span", null, h("span", { class: "dot" }), "Latest"), null, latest),
    section("Try a message", null, samples)));
  replace(latest, decisions.map(line));
  if (!isOperator()) return;
  const seen = new Set(decisions.map((each) => `${each.user}/${each.session_id}/${each.sequence}`)), oldest = decisions.at(-1)?.created_at;
  for await (const each of newDecisions({}, decisions[0]?.created_at, signal)) {
    if (!each) { go("", { replace: true }); return; }
    const name = `${each.user}/${each.session_id}/${each.sequence}`;
    if (seen.has(name) || each.created_at <= oldest) continue;
    seen.add(name);
    latest.prepend(line(each));
    while (latest.children.length > LATEST) latest.lastChild.remove();
  }
}
