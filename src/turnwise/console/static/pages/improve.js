// Improve: drafts to try and to serve, what labels and traffic show, and the commands that learn from labels.

import { all, api, part } from "../api.js";
import { chip, empty, faint, figure, forOperators, h, inRow, needs, NO_DEFINITIONS, plainlist, problem, replace, section, shares, wide } from "../parts.js";
import { complain, may, me, toast } from "../shell.js";
import { number, percent, plural, time } from "../text.js";

const TO_TEACH = 10, TO_JUDGE = 15, READ = 5000;

const points = (value) => `${value > 0 ? "+" : value < 0 ? "−" : "±"}${Math.abs(100 * value).toFixed(1)} points`;

// What a draft would change among recorded messages, and what that gains by their labels.
function tried(found) {
  const { labelled, gain, changed, replayed, flips } = found;
  const sum = labelled ? [h("b", { class: gain > 0 ? "right" : gain < 0 ? "wrong" : "" }, points(gain)), ` on ${plural(labelled, "labelled decision")}. `] : "No labelled decision tells a gain. ";
  return [h("p", null, sum, `${number(changed)} of ${plural(replayed, "decision")} would go elsewhere.`),
    flips.length ? plainlist(flips.slice(0, 8).map((each) => h("li", null,
      h("span", { class: "row" }, chip(each.before, true), "→", chip(each.after, true)), h("span", { class: "grow faint cut", dir: "auto" }, each.examples[0] ? `“${each.examples[0]}”` : ""),
      each.right ? h("b", { class: "right" }, `${each.right} would be right`) : null, each.wrong ? h("b", { class: "wrong" }, `${each.wrong} would be wrong`) : null, h("b", null, number(each.count))))) : null];
}

function draft(each, again) {
  const of = `${each.kind === "agent" ? "agents" : "policies"}/${part(each.name)}`, what = h("div"), added = (each.content.learned || []).length;
  const attempt = async (event) => {
    const button = event.target;
    button.disabled = true;
    replace(what, h("p", { class: "faint", role: "status" }, "Deciding recorded messages again…"));
    try { replace(what, tried(await api.post(`${of}/try`, { version: each.version, labelled: true, limit: 1000 }))); } catch (error) { replace(what, problem(error)); }
    button.disabled = false;
  };
  const serve = async () => {
    if (!confirm(`Serve version ${each.version} of ${each.name} to all users?`)) return;
    try {
      await api.change("POST", each.kind === "agent" ? `${of}/activate` : `${of}/rollback`, each.version, { version: each.version });
      toast(`${each.name} is served as in version ${each.version}.`);
    } catch (error) { complain(error); }
    again();
  };
  return h("li", { class: "version" }, inRow(each.kind === "agent" ? chip(each.name) : h("a", { href: "policy" }, `policy ${each.name}`), h("span", { class: "faint" }, `version ${each.version}`, added ? `, ${plural(added, "learned example")}` : "", ` · ${each.author} · `, each.created_at ? time(each.created_at) : ""),
    h("span", { class: "push actions" }, h("button", { onclick: attempt }, "Gain"), may("definitions:write") ? h("button", { onclick: serve }, "Serve it") : null)), each.note ? h("p", { dir: "auto" }, each.note) : null, what);
}

async function drafts(box, signal) {
  if (!me.definitions) { replace(box, needs("Drafts", NO_DEFINITIONS)); return; }
  const again = () => drafts(box, signal).catch((error) => signal.aborted || replace(box, problem(error)));
  const found = (await Promise.all(["agent", "policy"].map((kind) => all(`definitions/${kind}`, "definitions")))).flat().filter((each) => each.status === "draft");
  replace(box, section("Drafts", found.length || null, found.length ? plainlist(found.map((each) => draft(each, again)))
    : faint("None. ", h("code", null, "turnwise learn --draft"), " stores what it proposes as drafts, which are tried and served here.")));
}

// What the traffic shows. It is read last: it compares messages by meaning.
async function traffic(box, signal) {
  replace(box, h("p", { class: "faint", role: "status" }, "Reading what falls to nobody…"));
  const found = await api.get("decision-report", { limit: READ }, signal);
  const right = found.accuracy && `Right: ${percent(found.accuracy.share)}, between ${percent(found.accuracy.low)} and ${percent(found.accuracy.high)}, from ${plural(found.accuracy.labels, "label")}${found.accuracy.how === "random" ? " of decisions picked at random" : ", each weighed by how probable its pick was"}.`;
  const quotes = (each) => h("p", { class: "faint", dir: "auto" }, each.examples.map((text) => `“${text}”`).join(", "));
  replace(box, h("p", { class: "lead" }, right || "How often the router is right is not known yet: label some decisions of the review's random ones."),
    h("div", { class: "columns" },
      section("Falls to nobody", found.groups.length ? "grouped by meaning, with a name for an agent" : null, found.groups.length ? plainlist(found.groups.slice(0, 8).map((each) => h("li", null, h("div", { class: "grow" }, h("b", null, each.name), quotes(each)), h("b", null, number(each.count)))))
        : faint(found.nobody ? `${plural(found.nobody, "message")} went to the default agent; no group of them asks for the same.` : "No message went to the default agent.")),
      section("Patterns that meet", null, found.conflicts.length ? plainlist(found.conflicts.slice(0, 8).map((each) => h("li", null, h("div", { class: "grow" }, inRow(each.agents.map((name) => chip(name))), quotes(each)), h("b", null, number(each.count)))))
        : faint("No message matches patterns of two agents."))));
}

export async function page({ box, signal }) {
  if (!may("decisions:label")) { replace(box, forOperators("Labels and what is learned from them are")); return; }
  const counts = await api.get("decision-counts", {}, signal), agents = counts.agents.filter((each) => each.labelled);
  const labelled = agents.reduce((sum, each) => sum + each.labelled, 0), wrong = agents.reduce((sum, each) => sum + each.contradicted, 0);
  if (!counts.total) {
    replace(box, empty("Nothing to learn from yet", `Learning needs at least ${TO_TEACH + TO_JUDGE} labelled decisions of several users or sessions: ${TO_TEACH} that teach, and ${TO_JUDGE} later ones that judge.`, h("a", { class: "button primary", href: "chat" }, "Open the chat")));
    return;
  }
  const enough = labelled >= TO_TEACH + TO_JUDGE, proposed = h("div"), shown = h("div", { class: "stack" });
  const command = (text, what) => h("li", null, h("code", { class: "grow" }, text), h("span", { class: "grow faint" }, what));
  replace(box, wide(
    h("div", { class: "figures" }, figure(number(labelled), `labelled of ${plural(counts.total, counts.complete ? "decision" : "newest decision")}`, "decisions?labels=some"), figure(number(wrong), "wrong", "decisions?labels=wrong"), figure(percent(labelled / counts.total), "labelled", "decisions?labels=none")),
    h("p", { class: "lead" }, enough ? "There are enough labels to learn from. Nothing goes live by itself: what is learned is a draft, which is tried before it is served."
      : `Learning needs at least ${TO_TEACH + TO_JUDGE} labels: ${number(TO_TEACH + TO_JUDGE - labelled)} more. `, enough ? null : h("a", { href: "review" }, "Review decisions")),
    proposed,
    labelled ? h("div", { class: "columns" },
      section("Labels by agent", null, shares(agents.map((each) => ({ ...each, count: each.labelled })).sort((a, b) => b.count - a.count), labelled, (each) => h("a", { href: `decisions?agent=${part(each.name)}&labels=some` }, each.name))),
      section("What went wrong", "chosen → should have been", counts.confusions.length
        ? plainlist(counts.confusions.slice(0, 12).map((each) => h("li", null, h("a", { class: "row grow", href: `decisions?agent=${part(each.agent)}&label=${part(each.label)}` }, chip(each.agent, true), "→", chip(each.label, true)), h("b", null, number(each.count)))))
        : faint("No label contradicts a decision."))) : null,
    shown,
    section("With these labels", null, h("ul", { class: "plainlist" },
      command("turnwise decisions signals", "labels decisions by what followed in the log"),
      command("turnwise learn --draft", "proposes examples to add and to drop, as drafts"),
      command("turnwise replay --policy NAME --report replay.html", "shows which recorded messages another policy sends elsewhere")))));
  const failed = (place) => (error) => signal.aborted || replace(place, problem(error));
  if (may("definitions:read")) await drafts(proposed, signal).catch(failed(proposed));
  await traffic(shown, signal).catch(failed(shown));
}
