// Quality: what labels say of the decisions: accuracy, confusions, reliability, and how often the user is asked.

import { api, part } from "../api.js";
import { chart, chip, empty, faint, figure, forOperators, h, needs, plainlist, replace, section, svg, wide } from "../parts.js";
import { may } from "../shell.js";
import { number, percent, plural, time } from "../text.js";

function reliability(cells) {
  const side = 240, at = (value) => value * side;
  const points = cells.filter((each) => each.labelled).map((each) => {
    const stated = (Number(each.name) + 0.5) / 10, right = 1 - each.contradicted / each.labelled;
    return svg("circle", { cx: at(stated) + 26, cy: side - at(right) + 6, r: Math.min(9, 3 + Math.sqrt(each.labelled)) }, svg("title", {}, `${percent(stated)} sure: ${percent(right)} right of ${each.labelled}`));
  });
  return h("figure", { class: "reliability" }, svg("svg", { viewBox: `0 0 ${side + 36} ${side + 26}`, role: "img", "aria-label": "Share that was right, by stated confidence" },
    svg("line", { x1: 26, y1: side + 6, x2: side + 26, y2: side + 6 }), svg("line", { x1: 26, y1: 6, x2: 26, y2: side + 6 }), svg("line", { class: "ideal", x1: 26, y1: side + 6, x2: side + 26, y2: 6 }), points,
    svg("text", { x: 26, y: side + 20 }, "0 % sure"), svg("text", { x: side + 26, y: side + 20, "text-anchor": "end" }, "100 %"), svg("text", { x: 0, y: 14 }, "100 %")));
}

const share = (value) => (value === null ? "–" : `${(100 * value).toFixed(1)} %`);

// What `turnwise eval --store` measured, the newest first, with what the newest one confused.
function evaluations(kept) {
  if (!kept.length) return needs("Evaluations", h("span", null, "on files of cases are shown here, too: ", h("code", null, "turnwise eval CASES --store"), " keeps their figures. What to do with labels is on ", h("a", { href: "improve" }, "Improve"), "."));
  const columns = [["When"], ["Policy"], ["Cases"], ["Messages", "n"], ["Right", "n"], ["Changes", "n"], ["Nobody, F1", "n"], ["Calibration error", "n"]], name = (agent) => (agent === null ? "nobody" : agent);
  const row = (each) => [time(each.at), h("span", { title: each.fingerprint }, each.policy), each.files.join(", "), number(each.cases), h("b", null, share(each.accuracy)), share(each.switch_accuracy), share(each.out_of_scope_f1), share(each.ece)];
  const confused = kept[0].confusions.slice(0, 8);
  return [section("Evaluations", "on files of cases", h("div", { class: "tablewrap whole", tabindex: 0 }, h("table", null, h("thead", null, h("tr", null, columns.map(([text, kind]) => h("th", { class: kind || "" }, text)))),
    h("tbody", null, kept.map((each) => h("tr", null, row(each).map((cell, i) => h("td", { class: columns[i][1] || "" }, cell)))))))),
  confused.length ? section("What the newest one confused", "right → chosen", plainlist(confused.map((each) => h("li", null, h("span", { class: "row grow" }, chip(name(each.expected), true), "→", chip(name(each.chosen), true)), h("b", null, number(each.count)))))) : null];
}

export async function page({ box, signal }) {
  if (!may("decisions:label")) { replace(box, forOperators("Labels and accuracy are")); return; }
  const [counts, labelled, kept] = await Promise.all([api.get("decision-counts", {}, signal), api.get("decision-counts", { labelled: "true" }, signal), api.get("evaluations", { limit: 20 }, signal)]);
  const later = evaluations(kept.evaluations);
  if (!labelled.total) {
    replace(box, empty("No labels yet", "Say of some decisions which agent should have answered. Then this page shows how often the policy is right, and what it confuses.", h("a", { class: "button primary", href: "decisions?labels=none" }, "Label decisions")));
    box.append(wide(later));
    return;
  }
  const wrong = labelled.agents.reduce((sum, each) => sum + each.contradicted, 0), asks = counts.outcomes.find((each) => each.name === "clarify")?.count || 0;
  const confusion = (each) => h("li", null, h("a", { class: "row grow", href: `decisions?agent=${part(each.agent)}&label=${part(each.label)}` }, chip(each.agent, true), "should have been", chip(each.label, true)), h("b", null, number(each.count)));
  replace(box, wide(
    h("div", { class: "figures" }, figure(percent(1 - wrong / labelled.total), `right of ${plural(labelled.total, "labelled decision")}`, "decisions?labels=some"), figure(number(wrong), "wrong", "decisions?labels=wrong"), figure(percent(asks / counts.total), "asked the user", "decisions?outcome=clarify")),
    h("div", { class: "columns" },
      section("Confusions", null, labelled.confusions.length ? plainlist(labelled.confusions.map(confusion)) : faint("None among the labelled decisions.")),
      section("Reliability", "is 80 % sure right in 80 %?", reliability(labelled.confidence))),
    section("By agent", null, h("div", { class: "tablewrap", tabindex: 0 }, h("table", null, h("thead", null, h("tr", null, ["Agent", "Labelled", "Right", "Wrong"].map((name, i) => h("th", { class: i ? "n" : "" }, name)))),
      h("tbody", null, labelled.agents.map((each) => h("tr", null, h("td", null, chip(each.name)), h("td", { class: "n" }, h("a", { href: `decisions?agent=${part(each.name)}&labels=some` }, number(each.labelled))), h("td", { class: "n" }, percent(1 - each.contradicted / each.labelled)), h("td", { class: "n" }, h("a", { href: `decisions?agent=${part(each.name)}&labels=wrong` }, number(each.contradicted))))))))),
    section("Asked the user, over time", null, chart(counts.times, counts.seconds)), later));
}
