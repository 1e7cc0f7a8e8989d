// Policy: the cascade, drawn, with the share of decisions that each stage made; a message to try; the definition.

import { api } from "../api.js";
import { add, code, forOperators, h, needs, NO_DEFINITIONS, plainlist, problem, replace, section, small, why, wide } from "../parts.js";
import { complain, handoff, may, me, toast } from "../shell.js";
import { ms, percent, plural, time } from "../text.js";

const SAMPLE = 100;

// Which stage decided how often, and how long each took, in the newest decisions.
function measure(decisions) {
  const found = new Map();
  for (const { selection } of decisions) {
    for (const each of selection.verdicts) {
      const stage = found.get(each.selector) || { decided: 0, asks: 0, asked: 0, ms: 0 };
      stage.asked += 1;
      stage.ms += each.ms;
      if (each.outcome !== "abstained") stage.decided += 1;
      if (each.outcome === "clarify") stage.asks += 1;
      found.set(each.selector, stage);
    }
  }
  return found;
}

const options = (given) => Object.entries(given).map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");

// A stage's bar is as wide as the share of messages that come to it; the dark part of it is what the stage decides.
function drawn(policy, measured, used) {
  const share = (count) => (used ? count / used : 0), width = (value) => `${Math.max(0, Math.min(1, value)) * 100}%`;
  const row = (name, more, stage) => {
    const { decided = 0, asks = 0, asked = 0 } = stage || {}, told = used ? `${percent(share(asked))} come here, ${percent(share(decided))} are decided here` : "no decision yet";
    return h("li", { class: decided ? "" : "idle" },
      h("div", { class: "stage" }, h("b", null, name), more),
      h("div", { class: "flow", role: "img", "aria-label": told, title: told }, h("i", { class: "come", style: { "--w": width(share(asked)) } }, h("i", { class: "done", style: { "--w": width(asked ? (decided - asks) / asked : 0) } }), h("i", { class: "ask", style: { "--w": width(asked ? asks / asked : 0) } }))),
      h("b", { class: "n" }, used ? percent(share(decided)) : "–"), h("small", { class: "n" }, asked ? ms(stage.ms / asked) : "not asked"));
  };
  const decided = [...measured.values()].reduce((sum, each) => sum + each.decided, 0);
  return h("ol", { class: "cascade" }, policy.stages.map((each) => row(each.name, [each.selector === each.name ? null : small(` ${each.selector}`), Object.keys(each.options).length ? h("p", null, code(options(each.options))) : null], measured.get(each.name))),
    row("default", h("p", null, h("a", { href: `agents/${encodeURIComponent(policy.default)}` }, policy.default), small(" answers when every stage passes")), used ? { decided: Math.max(0, used - decided), asked: Math.max(0, used - decided), asks: 0, ms: 0 } : null));
}

async function stored(box, signal, go) {
  const policy = me.definitions ? (await api.get("definitions/policy", { limit: 200 }, signal)).definitions.find((each) => each.name === "main") : null;
  if (!policy) {
    replace(box, needs("Versions of the policy", me.definitions ? h("span", null, "begin with ", code("turnwise agents set main --policy"), ": then it is changed and rolled back without a restart. Now turnwise.yaml has it.") : NO_DEFINITIONS));
    return;
  }
  const back = async () => {
    try { await api.change("POST", "policies/main/rollback", policy.version, {}); toast("The version before serves within a second."); go("policy"); } catch (error) { complain(error); }
  };
  replace(box, h("section", { class: "section" }, h("h2", null, "Definition", small(`version ${policy.version}, ${policy.status}`), may("definitions:write") && policy.version > 1 ? h("span", { class: "push" }, h("button", { onclick: back }, "Roll back")) : null),
    h("p", null, policy.author, " · ", policy.created_at ? time(policy.created_at) : null, policy.note ? ` · ${policy.note}` : ""), h("details", null, h("summary", null, "Content"), h("pre", { tabindex: 0 }, JSON.stringify(policy.content, null, 2)))));
}

export async function page({ box, signal, title, keys, go }) {
  title("Policy", small(me.policy));
  const result = h("div"), field = h("input", { "aria-label": "A message to try", placeholder: "A message to try", value: handoff.text, maxlength: 4000 });
  handoff.text = "";
  const attempt = async () => {
    if (!field.value.trim()) return;
    try {
      const selection = await api.post("select", { content: field.value });
      replace(result, h("div", { class: "box" }, why({ selection })));
    } catch (error) { replace(result, problem(error)); }
  };
  const form = h("form", { class: "try", onsubmit: (event) => { event.preventDefault(); attempt(); } }, field, h("button", { type: "submit", class: "primary" }, "Decide"));
  keys([["/", "try a message", () => field.focus()]]);
  const column = wide(section("Try a message", "nothing is stored, and no agent runs", form), result);
  replace(box, column);
  if (field.value) attempt();
  if (!may("metrics:read")) { column.append(forOperators("The policy's stages are")); return; }
  const [policy, recent] = await Promise.all([api.get("policy", {}, signal), api.get("decisions", { limit: SAMPLE }, signal)]);
  const messages = recent.decisions.filter((each) => each.selection.occasion !== "flow"), own = messages.filter((each) => each.selection.fingerprint === policy.fingerprint), used = own.length ? own : messages;
  const told = own.length ? `shares and mean times of the newest ${plural(own.length, "decision")}` : used.length ? `of the newest ${plural(used.length, "decision")}, made before the policy or the agents changed` : "no decision yet";
  const definition = h("div");
  add(column,
    section("The cascade", told, drawn(policy, measure(used), used.length),
      h("p", { class: "legend" }, small(h("i", { class: "come" }), "come to the stage"), small(h("i", { class: "done" }), "decided here"), small(h("i", { class: "ask" }), "the user is asked"))),
    policy.segments.length ? section("Segments", null, plainlist(policy.segments.map((each) => h("li", null, h("b", null, each.name), h("code", { class: "grow" }, JSON.stringify(each.options)), each.default ? small(`default ${each.default}`) : null)))) : null,
    h("dl", { class: "facts" }, policy.several ? [h("dt", null, "Several requests"), h("dd", null, policy.several)] : null,
      h("dt", null, "Fingerprint"), h("dd", null, h("a", { href: `decisions?policy=${policy.fingerprint}` }, code(policy.fingerprint))), h("dt", null, "Agent tree"), h("dd", null, code(policy.tree_version))),
    definition, needs("Compare two policies", h("span", null, "with ", code("turnwise replay --policy NAME --report replay.html"), ": it shows which recorded messages would go elsewhere.")));
  if (may("definitions:read")) await stored(definition, signal, go);
}
