// Talks to a gateway as a front end does, with the real client and its verification: reads a plan from standard input, and
// writes what came of it, both as JSON. Each step of the plan is a run; see ag_ui_play.py.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const plan = JSON.parse(readFileSync(0, "utf8"));
const { HttpAgent } = createRequire(plan.packages)("@ag-ui/client");

const warnings = [];
console.warn = (...told) => warnings.push(told.join(" "));
console.error = () => {}; // what failed is in what came of it

const agents = new Map();
function agentOf(step) {
  const name = step.agent ?? "one";
  if (!agents.has(name)) {
    const { url, headers, threadId } = plan;
    agents.set(name, new HttpAgent({ url, headers, threadId, initialMessages: [], ...step.make }));
  }
  return agents.get(name);
}

function resumeOf(agent, answer) {
  const answers = typeof answer === "object" && answer !== null && answer.byId ? answer.byId : null;
  return agent.pendingInterrupts.map((each) => ({
    interruptId: each.id,
    ...(answer === "cancel" ? { status: "cancelled" } : { status: "resolved", payload: answers ? answers[each.id] : answer }),
  }));
}

const came = [];
let number = 0;
for (const step of plan.steps) {
  const agent = agentOf(step);
  if (step.say !== undefined) agent.addMessage({ id: `user-${++number}`, role: "user", content: step.say });
  for (const [toolCallId, content] of Object.entries(step.results ?? {}))
    agent.addMessage({ id: `tool-${++number}`, role: "tool", toolCallId, content });
  if (step.result !== undefined) {
    const calls = agent.messages.findLast((each) => each.toolCalls)?.toolCalls ?? [];
    for (const call of calls) agent.addMessage({ id: `tool-${++number}`, role: "tool", toolCallId: call.id, content: step.result });
  }
  if (step.messages !== undefined) agent.setMessages(step.messages);
  if (step.state !== undefined) agent.setState({ ...agent.state, ...step.state });
  const events = [];
  const told = { events, failed: null };
  const options = { ...step.options };
  if (step.resume !== undefined) options.resume = resumeOf(agent, step.resume);
  try {
    const subscriber = {
      onEvent: ({ event }) => {
        events.push(event);
        if (event.type === step.leaveOn) agent.abortRun();
      },
      onRunFailed: ({ error }) => void (told.failed = error.message),
      onRunFinishedEvent: ({ pendingToolCallIds }) => void (told.pending = pendingToolCallIds),
    };
    const { result, newMessages } = await agent.runAgent(options, subscriber);
    Object.assign(told, { result, newMessages });
  } catch (error) {
    Object.assign(told, { failed: error.message, status: error.status ?? null, payload: error.payload ?? null });
  }
  const { messages, state, pendingInterrupts } = agent;
  came.push({ ...told, messages: structuredClone(messages), state: structuredClone(state), interrupts: structuredClone(pendingInterrupts) });
}
process.stdout.write(JSON.stringify({ came, warnings }));
