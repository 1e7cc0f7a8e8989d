// Agents: the tree, with the share of the traffic and the mistakes that people labelled; drafts; what lint found.

import { all, api, part } from "../api.js";
import { chip, faint, findings, h, needs, NO_DEFINITIONS, plainlist, replace, section, small, wide } from "../parts.js";
import { may, me } from "../shell.js";
import { percent, plural, time } from "../text.js";

function tree(agents, counts) {
  const traffic = new Map(counts.agents.map((each) => [each.name, each])), known = new Set(agents.map((each) => each.name));
  const children = (name) => agents.filter((each) => (each.parent ?? null) === name);
  const told = (each, count) => [each.kind === "function" ? "" : each.kind, each.matching?.enabled === false ? "disabled" : "",
    count ? h("a", { href: `decisions?agent=${part(each.name)}` }, `${percent(count.count / counts.total)} · ${plural(count.count, "decision")}`) : "no traffic",
    count?.contradicted && may("decisions:label") ? h("a", { class: "wrong", href: `decisions?agent=${part(each.name)}&labels=wrong` }, `${count.contradicted} wrong`) : ""]
    .filter(Boolean).flatMap((one, i) => (i ? [" · ", one] : [one]));
  const branch = (list) => (list.length ? h("ul", null, list.map((each) => h("li", null,
    h("div", { class: "node" }, chip(each.name), h("p", { dir: "auto", title: each.description.slice(0, 500) }, each.description.slice(0, 300) || "–"), small(told(each, traffic.get(each.name)))), branch(children(each.name))))) : null);
  return h("div", { class: "tree" }, branch(agents.filter((each) => !each.parent || !known.has(each.parent))));
}

const draftRow = (each) => h("li", null, chip(each.name), h("span", { class: `tag ${each.status}` }, each.status), h("span", { class: "grow", dir: "auto" }, each.note || `version ${each.version}`), small(each.author), each.created_at ? time(each.created_at) : null);

export async function page({ box, signal, title }) {
  const [agents, counts] = await Promise.all([all("agents", "agents"), api.get("decision-counts", {}, signal)]);
  title("Agents", small(plural(agents.length, "agent")));
  const drafts = h("div"), lint = h("div");
  replace(box, wide(tree(agents, counts), drafts, lint));
  if (!may("definitions:read")) return;
  await Promise.all([
    me.definitions ? all("definitions/agent", "definitions").then((list) => {
      const known = new Set(agents.map((each) => each.name)), open = list.filter((each) => each.status === "draft" || !known.has(each.name));
      if (open.length) replace(drafts, section("Drafts and retired", open.length, plainlist(open.map(draftRow))));
    }) : replace(drafts, needs("Drafts and history", NO_DEFINITIONS)),
    api.get("definitions/lint", {}, signal).then((report) => replace(lint, section("What makes them hard to tell apart", [plural(report.findings.length, "finding"), report.by_meaning ? null : "; meaning was not compared"],
      report.findings.length ? findings(report.findings.slice(0, 100)) : faint("Nothing: descriptions, examples and patterns differ well."))), () => {}),
  ]);
}
