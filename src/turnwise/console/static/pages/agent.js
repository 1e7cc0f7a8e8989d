// One agent: its card, patterns and examples, what it was chosen for, and the versions of its definition.

import { api, part } from "../api.js";
import { chip, chips, confidence, decisionPath, empty, fact, faint, findings, h, plainlist, problem, replace, said, section, wide } from "../parts.js";
import { handoff, may } from "../shell.js";
import { methodWords, number, percent, time } from "../text.js";

function card(agent, counts) {
  const m = agent.matching, name = part(agent.name), total = counts.total, { contradicted: wrong = 0, labelled = 0 } = counts.agents[0] || {};
  return [h("p", { class: "lead", dir: "auto" }, agent.description || "No description."),
    h("dl", { class: "facts" }, fact("Kind", agent.kind), agent.parent ? fact("Parent", chip(agent.parent)) : null, agent.children.length ? fact("Children", chips(agent.children)) : null,
      agent.kind === "flow" ? fact("Plan", h("a", { href: `flows/${name}` }, "The tasks, drawn")) : null,
      agent.tags.length ? fact("Tags", agent.tags.join(", ")) : null, fact("Decisions", total ? h("a", { href: `decisions?agent=${name}` }, `${number(total)}${counts.complete ? "" : " newest"}`) : "none"),
      labelled ? fact("Labelled", h("a", { href: `decisions?agent=${name}&labels=some` }, `${labelled}, of which ${wrong} wrong`)) : null,
      m ? [fact("Resume", m.resume), fact("Takes messages", m.enabled && m.routable ? "yes" : m.enabled ? "not by routing" : "disabled"), m.roles.length ? fact("Only for", m.roles.join(", ")) : null] : null)];
}

function matching(m, go) {
  const attempt = (text) => h("li", null, h("span", { class: "grow", dir: "auto" }, text), h("button", { class: "quiet", onclick: () => { handoff.text = text; go("policy"); } }, "Try"));
  const examples = [...m.examples, ...m.skills.flatMap((each) => each.examples || [])], shown = examples.slice(0, 50);
  return h("div", { class: "columns" },
    section("Patterns", m.patterns.length, m.patterns.length ? plainlist(m.patterns.map((each) => h("li", null, h("code", { class: "grow" }, each.regex), h("small", null, `${each.label ? `${each.label}, ` : ""}${percent(each.confidence)}${each.active ? "" : ", inactive"}`)))) : faint("None: only meaning leads here.")),
    section("Examples", examples.length, examples.length ? plainlist(shown.map(attempt), examples.length > shown.length ? h("li", { class: "faint" }, `and ${number(examples.length - shown.length)} more`) : null) : faint("None. A few messages that this agent should get make it easier to find.")));
}

const lately = (decisions) => section("Chosen lately", 0, plainlist(decisions.map((each) => h("li", null, h("a", { class: "cut", dir: "auto", href: decisionPath(each) }, said(each)), h("small", null, methodWords(each.selection.method)), confidence(each.selection), time(each.created_at)))));

export async function page({ box, signal, params, title, go }) {
  const name = params.join("/"), { example: handed } = handoff;
  const example = handed?.agent === name ? handed.text.trim().replace(/\s+/g, " ") : "";
  handoff.example = null;
  const missing = (error) => { if (error.status !== 404) throw error; return null; };
  const [agent, recent, counts] = await Promise.all([api.get(`agents/${part(name)}`, {}, signal).catch(missing), api.get("decisions", { agent: name, slim: true, limit: 10 }, signal), api.get("decision-counts", { agent: name }, signal)]);
  title(name, h("a", { class: "button push", href: `decisions?agent=${part(name)}` }, "Decisions"));
  const lint = h("div"), versions = h("div");
  const column = wide(
    agent ? card(agent, counts) : h("p", { class: "lead" }, "This agent does not serve now."), versions, agent?.matching ? matching(agent.matching, go) : null, lint,
    agent?.skills.length ? section("Skills", agent.skills.length, plainlist(agent.skills.map((each) => h("li", null, h("b", null, each.name), h("span", { class: "grow", dir: "auto" }, each.description))))) : null,
    recent.decisions.length ? lately(recent.decisions) : null);
  replace(box, column);
  if (!may("definitions:read")) { if (!agent) replace(box, empty("There is no such agent", "It has another name, or you may not use it.", h("a", { class: "button", href: "agents" }, "All agents"))); return; }
  const { definition } = await import("./definition.js");
  await Promise.all([
    definition(versions, name, agent, { signal, go, example }).catch((error) => error.name === "AbortError" || replace(versions, problem(error))),
    api.get("definitions/lint", {}, signal).then((report) => {
      const own = report.findings.filter((each) => each.agents.includes(name));
      if (own.length) replace(lint, section("What makes it hard to tell apart", own.length, findings(own)));
    }, () => {}),
  ]);
}
