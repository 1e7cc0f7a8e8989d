// Flows: the agents that let others do tasks together, with the plan of each, drawn.

import { all, api, part } from "../api.js";
import { add, chip, chips, empty, faint, h, replace, small } from "../parts.js";
import { plural } from "../text.js";

const KINDS = { flow: "a plan of tasks", sequential: "one after the other", parallel: "side by side", loop: "again and again", team: "a model leads" };
const DRAWN = 6;

// The server draws the plan. A picture runs no script, whatever is in it.
function picture(name, drawing, signal) {
  const url = URL.createObjectURL(new Blob([drawing], { type: "image/svg+xml" }));
  signal.addEventListener("abort", () => URL.revokeObjectURL(url));
  return h("div", { class: "plan", tabindex: 0 }, h("img", { src: url, alt: `The plan of ${name}: its tasks and what each needs` }));
}

const tasks = (plan) => h("div", { class: "tablewrap", tabindex: 0 }, h("table", null, h("thead", null, h("tr", null, ["Task", "Work", "By", "After"].map((name) => h("th", null, name)))),
  h("tbody", null, plan.tasks.map((each) => h("tr", null,
    h("td", null, h("b", null, each.name), each.run_if === "always" ? small(" in any case") : null, each.interactive ? small(" may ask") : null),
    h("td", { dir: "auto" }, each.objective), h("td", null, chips(each.agents)), h("td", null, each.needs.join(", ") || "–"))))));

async function plan(holder, agent, signal) {
  const found = await api.get(`agents/${part(agent.name)}/plan`, {}, signal);
  if (found.tasks === null) { replace(holder, faint("Each run makes its own plan. A session's page shows the plan of its run.")); return; }
  replace(holder, found.drawing ? picture(agent.name, found.drawing, signal) : faint("Too large to be drawn, or with agents that you may not see."),
    h("details", { open: !found.drawing }, h("summary", null, plural(found.tasks.length, "task")), tasks(found)));
}

export async function page({ box, signal, params, title }) {
  const wanted = params.join("/"), agents = (await all("agents", "agents")).filter((each) => each.kind in KINDS && (!wanted || each.name === wanted));
  title(wanted || "Flows", wanted ? null : small(plural(agents.length, "agent that runs others", "agents that run others")));
  if (!agents.length) {
    replace(box, wanted ? empty("There is no such flow", "It has another name, or you may not use it.", h("a", { class: "button", href: "flows" }, "All flows")) : empty("No flows", "No agent of this app lets others do tasks together. A flow is a list of tasks with dependencies; the docs' page “Flows” begins with one."));
    return;
  }
  const column = h("div", { class: "narrow wide" }), waiting = [];
  replace(box, column);
  for (const [i, agent] of agents.entries()) {
    const holder = h("div", { class: "stack tasks" });
    add(column, h("section", { class: "section" }, h("h2", null, chip(agent.name), small(KINDS[agent.kind]), h("span", { class: "push row" }, agent.kind === "flow" ? h("a", { href: `flows/${part(agent.name)}` }, "Link") : null, h("a", { href: `decisions?agent=${part(agent.name)}` }, "Decisions"))),
      h("p", { class: "lead", dir: "auto" }, agent.description), holder));
    if (agent.kind !== "flow") replace(holder, h("p", { class: "row" }, agent.children.flatMap((name, at) => (at && agent.kind === "sequential" ? ["→", chip(name)] : [chip(name)]))));
    else if (i < DRAWN) waiting.push(plan(holder, agent, signal));
  }
  await Promise.all(waiting);
}
