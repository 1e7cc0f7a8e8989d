// Policy: the cascade as it is, with the share of decisions that each stage made; a message to try.

import { api } from "../api.js";
import { bar, empty, h, needs, problem, replace, why } from "../parts.js";
import { handoff, may, me } from "../shell.js";
import { ms, percent, plural } from "../text.js";

const SAMPLE = 100;

// Which stage decided how often, and how long each took, in the newest decisions.
function measure(decisions) {
  const found = new Map();
  for (const { selection } of decisions) {
    for (const each of selection.verdicts) {
      const stage = found.get(each.selector) || { decided: 0, asked: 0, ms: 0 };
      stage.asked += 1;
      stage.ms += each.ms;
      if (each.outcome !== "abstained") stage.decided += 1;
      found.set(each.selector, stage);
    }
  }
  return found;
}

export async function page({ box, signal, title, keys }) {
  title("Policy", h("small", null, me.policy));
  const result = h("div"), field = h("input", { "aria-label": "A message to try", placeholder: "A message to try", value: handoff.text, maxlength: 4000 });
  handoff.text = "";
  const attempt = async () => {
    if (!field.value.trim()) return;
    try {
      const selection = await api.post("select", { content: field.value });
      replace(result, h("div", { class: "box" }, why({ selection })));
    } catch (error) { replace(result, problem(error)); }
  };
  const form = h("form", { class: "try", onsubmit: (event) => { event.preventDefault(); attempt(); } }, field, h("button", { class: "primary" }, "Decide"));
  keys([["/", "try a message", () => field.focus()]]);
  const trying = h("section", { class: "section" }, h("h2", null, "Try a message", h("small", null, "nothing is stored, and no agent runs")), form);
  const column = h("div", { class: "narrow wide" }, trying, result);
  replace(box, column);
  if (field.value) attempt();
  if (!may("metrics:read")) { column.append(empty("For operators", "The policy's stages are shown to operators and admins.")); return; }
  const [policy, recent] = await Promise.all([api.get("policy", {}, signal), api.get("decisions", { limit: SAMPLE }, signal)]);
  const measured = measure(recent.decisions.filter((each) => each.selection.fingerprint === policy.fingerprint)), used = recent.decisions.filter((each) => each.selection.fingerprint === policy.fingerprint).length;
  const options = (given) => Object.entries(given).map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
  column.append(
    h("section", { class: "section" }, h("h2", null, "The cascade", h("small", null, used ? `shares and times of the newest ${plural(used, "decision")} by this policy` : "no decision by this policy yet")),
      h("ol", { class: "cascade" }, policy.stages.map((each) => {
        const stage = measured.get(each.name), share = stage && used ? stage.decided / used : 0;
        return h("li", { class: share ? "" : "idle" }, h("div", null, h("b", null, each.name), each.selector === each.name ? "" : h("small", null, ` ${each.selector}`), Object.keys(each.options).length ? h("p", null, h("code", null, options(each.options))) : null),
          h("span", { class: "share" }, bar(share), h("b", null, used ? percent(share) : "–")), h("small", null, stage ? `${ms(stage.ms / stage.asked)} each` : "not asked"));
      }))),
    h("dl", { class: "facts" }, h("dt", null, "Default agent"), h("dd", null, h("a", { href: `agents/${encodeURIComponent(policy.default)}` }, policy.default)), policy.several ? [h("dt", null, "Several requests"), h("dd", null, policy.several)] : null,
      h("dt", null, "Fingerprint"), h("dd", null, h("a", { href: `decisions?policy=${policy.fingerprint}` }, h("code", null, policy.fingerprint))), h("dt", null, "Agent tree"), h("dd", null, h("code", null, policy.tree_version))),
    policy.segments.length ? h("section", { class: "section" }, h("h2", null, "Segments"), h("ul", { class: "plainlist" }, policy.segments.map((each) => h("li", null, h("b", null, each.name), h("code", { class: "grow" }, JSON.stringify(each.options)), each.default ? h("small", null, `default ${each.default}`) : null)))) : null,
    needs("Compare two policies", "needs replay of recorded traffic: then a change shows which decisions would flip."));
}
