// Improve: what labels make possible: learn examples from them, and replay recorded messages by another policy.

import { api, part } from "../api.js";
import { chip, empty, h, needs, replace, section, shares } from "../parts.js";
import { may } from "../shell.js";
import { number, percent, plural } from "../text.js";

const TO_TEACH = 10, TO_JUDGE = 15;

export async function page({ box, signal }) {
  if (!may("decisions:label")) { replace(box, empty("For operators", "Labels and what is learned from them are shown to operators and admins.")); return; }
  const counts = await api.get("decision-counts", {}, signal), agents = counts.agents.filter((each) => each.labelled);
  const labelled = agents.reduce((sum, each) => sum + each.labelled, 0), wrong = agents.reduce((sum, each) => sum + each.contradicted, 0);
  if (!labelled) {
    replace(box, empty("No labels yet", `Learning needs at least ${TO_TEACH + TO_JUDGE} labelled decisions of several users or sessions: ${TO_TEACH} that teach, and ${TO_JUDGE} later ones that judge.`, h("a", { class: "button primary", href: "review" }, "Review decisions")));
    return;
  }
  const enough = labelled >= TO_TEACH + TO_JUDGE;
  const command = (text, what) => h("li", null, h("code", { class: "grow" }, text), h("span", { class: "grow faint" }, what));
  const figure = (value, text, href) => h("a", { href }, h("b", null, value), h("small", null, text));
  replace(box, h("div", { class: "narrow wide" },
    h("div", { class: "figures" }, figure(number(labelled), `labelled of ${plural(counts.total, counts.complete ? "decision" : "newest decision")}`, "decisions?labels=some"), figure(number(wrong), "wrong", "decisions?labels=wrong"), figure(percent(labelled / counts.total), "labelled", "decisions?labels=none")),
    h("p", { class: "lead" }, enough ? "There are enough labels to learn from. Nothing goes live by itself: what is learned is a proposal, and replay shows what it changes."
      : `Learning needs at least ${TO_TEACH + TO_JUDGE} labels: ${number(TO_TEACH + TO_JUDGE - labelled)} more. `, enough ? null : h("a", { href: "review" }, "Review decisions")),
    h("div", { class: "columns" },
      section("Labels by agent", null, shares(agents.map((each) => ({ ...each, count: each.labelled })).sort((a, b) => b.count - a.count), labelled, (each) => h("a", { href: `decisions?agent=${part(each.name)}&labels=some` }, each.name))),
      section("What went wrong", "chosen → should have been", counts.confusions.length
        ? h("ul", { class: "plainlist" }, counts.confusions.slice(0, 12).map((each) => h("li", null, h("a", { class: "row grow", href: `decisions?agent=${part(each.agent)}&label=${part(each.label)}` }, chip(each.agent, true), "→", chip(each.label, true)), h("b", null, number(each.count)))))
        : h("p", { class: "faint" }, "No label contradicts a decision."))),
    section("With these labels", null, h("ul", { class: "plainlist" },
      command("turnwise learn --output learned.yaml", "proposes examples to add and to drop"),
      command("turnwise replay --policy NAME --report replay.html", "shows which recorded messages another policy sends elsewhere"),
      command("turnwise eval --help", "measures a policy on files of cases"))),
    needs("Results on this page", "need a store for them: replay and eval write their reports as HTML files, which any browser opens."),
    needs("Shadow policies and experiments", "need policies that decide beside the one that serves.")));
}
