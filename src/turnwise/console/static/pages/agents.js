// Agents: the tree, with the share of the traffic and the mistakes that people labelled.

import { all, api, part } from "../api.js";
import { chip, h, needs, replace } from "../parts.js";
import { may } from "../shell.js";
import { number, percent, plural } from "../text.js";

export async function page({ box, signal, title }) {
  const [agents, counts] = await Promise.all([all("agents", "agents"), api.get("decision-counts", {}, signal)]);
  title("Agents", h("small", null, plural(agents.length, "agent")));
  const traffic = new Map(counts.agents.map((each) => [each.name, each]));
  const children = (name) => agents.filter((each) => (each.parent ?? null) === name);
  const known = new Set(agents.map((each) => each.name));
  const branch = (list) => (list.length ? h("ul", null, list.map((each) => {
    const count = traffic.get(each.name);
    return h("li", null, h("div", { class: "node" }, chip(each.name), h("p", { dir: "auto", title: each.description }, each.description || "–"),
      h("small", null, [each.kind === "function" ? "" : each.kind, each.matching?.enabled === false ? "disabled" : "",
        count ? h("a", { href: `decisions?agent=${part(each.name)}` }, `${percent(count.count / counts.total)} · ${number(count.count)}`) : "no traffic",
        count?.contradicted && may("decisions:label") ? h("a", { class: "wrong", href: `decisions?agent=${part(each.name)}&labels=wrong` }, `${count.contradicted} wrong`) : ""].filter(Boolean).flatMap((each2, i) => (i ? [" · ", each2] : [each2])))),
    branch(children(each.name)));
  })) : null);
  const tops = agents.filter((each) => !each.parent || !known.has(each.parent));
  replace(box, h("div", { class: "narrow wide" }, h("div", { class: "tree" }, branch(tops)),
    needs("Drafts and history", "need agent definitions in the store: then a card can be changed here, compared on recorded traffic, and put back.")));
}
