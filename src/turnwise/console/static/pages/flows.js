// Flows: the agents that let others do tasks together.

import { all, part } from "../api.js";
import { chip, empty, h, needs, replace } from "../parts.js";
import { plural } from "../text.js";

const KINDS = { flow: "a plan of tasks", sequential: "one after the other", parallel: "side by side", loop: "again and again", team: "a model leads" };

export async function page({ box, title }) {
  const agents = (await all("agents", "agents")).filter((each) => each.kind in KINDS);
  title("Flows", h("small", null, plural(agents.length, "agent that runs others", "agents that run others")));
  const later = needs("The plan, drawn", "with its tasks and their states, is printed by turnwise flow show; the API does not offer it yet.");
  if (!agents.length) { replace(box, empty("No flows", "No agent of this app lets others do tasks together. The docs' page on flows begins with one.")); box.append(h("div", { class: "narrow" }, later)); return; }
  replace(box, h("div", { class: "narrow wide" }, h("ul", { class: "plainlist" }, agents.map((each) => h("li", null, chip(each.name), h("small", null, KINDS[each.kind]), h("span", { class: "grow", dir: "auto" }, each.description), h("span", null, each.children.map((child) => [chip(child), " "])), h("a", { href: `decisions?agent=${part(each.name)}` }, "decisions")))), later));
}
