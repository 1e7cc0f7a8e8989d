// One agent: its card, patterns and examples, and what it was chosen for.

import { api, part } from "../api.js";
import { chip, confidence, h, needs, replace } from "../parts.js";
import { handoff, may } from "../shell.js";
import { methodWords, number, percent, time } from "../text.js";

export async function page({ box, signal, params, title, go }) {
  const name = params.join("/");
  const [agent, recent, counts] = await Promise.all([api.get(`agents/${part(name)}`, {}, signal), api.get("decisions", { agent: name, slim: true, limit: 10 }, signal), api.get("decision-counts", { agent: name }, signal)]);
  title("Agent", h("code", null, name), h("a", { class: "button push", href: `decisions?agent=${part(name)}` }, "Decisions"));
  const m = agent.matching, total = counts.total, wrong = counts.agents[0]?.contradicted || 0, labelled = counts.agents[0]?.labelled || 0;
  const attempt = (text) => h("li", null, h("span", { class: "grow", dir: "auto" }, text), h("button", { type: "button", class: "quiet", onclick: () => { handoff.text = text; go("policy"); } }, "Try"));
  const fact = (key, value) => [h("dt", null, key), h("dd", null, value)];
  const section = (text, count, ...content) => h("section", { class: "section" }, h("h2", null, text, count ? h("small", null, String(count)) : null), content);
  const examples = m ? [...m.examples, ...m.skills.flatMap((each) => each.examples || [])] : [];
  replace(box, h("div", { class: "narrow wide" },
    h("p", { class: "lead", dir: "auto" }, agent.description || "No description."),
    h("dl", { class: "facts" }, fact("Kind", agent.kind), agent.parent ? fact("Parent", chip(agent.parent)) : null, agent.children.length ? fact("Children", agent.children.map((each) => [chip(each), " "])) : null,
      agent.tags.length ? fact("Tags", agent.tags.join(", ")) : null, fact("Decisions", total ? h("a", { href: `decisions?agent=${part(name)}` }, `${number(total)}${counts.complete ? "" : " newest"}`) : "none"),
      labelled ? fact("Labelled", h("a", { href: `decisions?agent=${part(name)}&labels=some` }, `${labelled}, of which ${wrong} wrong`)) : null,
      m ? [fact("Resume", m.resume), fact("Takes messages", m.enabled && m.routable ? "yes" : m.enabled ? "not by routing" : "disabled"), m.roles.length ? fact("Only for", m.roles.join(", ")) : null] : null),
    m ? h("div", { class: "columns" },
      section("Patterns", m.patterns.length, m.patterns.length ? h("ul", { class: "plainlist" }, m.patterns.map((each) => h("li", null, h("code", { class: "grow" }, each.regex), h("small", null, `${each.label ? `${each.label}, ` : ""}${percent(each.confidence)}${each.active ? "" : ", inactive"}`)))) : h("p", { class: "faint" }, "None: only meaning leads here.")),
      section("Examples", examples.length, examples.length ? h("ul", { class: "plainlist" }, examples.map(attempt)) : h("p", { class: "faint" }, "None. A few messages that this agent should get make it easier to find."))) : null,
    agent.skills.length ? section("Skills", agent.skills.length, h("ul", { class: "plainlist" }, agent.skills.map((each) => h("li", null, h("b", null, each.name), h("span", { class: "grow", dir: "auto" }, each.description))))) : null,
    recent.decisions.length ? section("Chosen lately", 0, h("ul", { class: "plainlist" }, recent.decisions.map((each) => h("li", null, h("a", { class: "cut", dir: "auto", href: `decisions/${part(each.session_id)}/${each.sequence}?user=${part(each.user)}` }, each.text || "(no text)"), h("small", null, methodWords(each.selection.method)), confidence(each.selection), time(each.created_at))))) : null,
    may("metrics:read") ? needs("Drafts and history", "need agent definitions in the store. The card comes from the app's code or YAML.") : null));
}
