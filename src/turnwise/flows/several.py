"""Several: splits one message between several agents, which answer concurrently."""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from turnwise.agents.function import make_card
from turnwise.facts.content import OTHER, Content, text_in
from turnwise.facts.errors import FlowFailed
from turnwise.facts.events import USER, Event
from turnwise.facts.selections import Verdict
from turnwise.facts.tree import AgentCard, Kind
from turnwise.flows.argument_checks import check_text
from turnwise.flows.control.controller import RunEnding
from turnwise.flows.control.running import RunResult, failed_result, interrupted_result, results, run_design
from turnwise.flows.design import make_design, run_rules
from turnwise.flows.plans.plan import Plan, PlannedTask, recorded_plan
from turnwise.flows.tasks.graph import Graph
from turnwise.matching.language import language_of
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext

UNANSWERED = "{agent} could not answer its part."


class Several:
    """An agent for messages that ask for several things, for a policy's `several`.

    The verdict that routed the message names the agents: the chosen one and those in `also`, anywhere in the tree. Each
    gets the message unchanged and answers as usual, except that it cannot transfer. The answer joins their answers, in
    the order of the verdict.

    A run raises FlowFailed if all agents failed, or if no verdict names agents for its message. By its card the agent
    is not routable. It must not be the agents' parent.

    Args:
        name: The agent's name.
        unanswered: The text for an agent that failed, also by the message's language: `{"other": …, "de": …}`. `{agent}` is
            replaced with the agent's name.
        card: Other fields of AgentCard.
    """

    kind: ClassVar[Kind] = "flow"
    graph: ClassVar[None] = None
    children: Sequence[Agent] = ()

    def __init__(self, name: str = "several", *, unanswered: str | Mapping[str, str] = UNANSWERED, **card: Any) -> None:
        self.card: AgentCard = make_card({"name": name, "kind": self.kind, "routable": False, **card})
        self._rules = run_rules(name)
        texts = unanswered if isinstance(unanswered, Mapping) else {OTHER: unanswered}
        self._unanswered = {key: check_text(f"The flow {name!r}", "unanswered", text) for key, text in texts.items()}

    def __repr__(self) -> str:
        return f"Several({self.card.name!r})"

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        """Plans the parts of the message, runs their agents concurrently, and yields the joined answer."""
        plan = await recorded_plan(context, partial(self._make_plan, context))
        rules = self._rules._replace(side_by_side=len(plan.tasks))
        design = make_design(self.card.name, plan.to_tasks(), rules, relays=True)
        unanswered = text_in(self._unanswered, language_of(context.message.text))
        async for event in run_design(design, context, partial(self._join_results, unanswered)):
            yield event

    async def _make_plan(self, context: AgentContext) -> Plan:
        """Creates one task for each agent that the verdict names."""
        assignment = context.assignment
        verdict = await _verdict(context, assignment.request if assignment is not None else context.message)
        candidates = dict.fromkeys((verdict.agent, *verdict.also)) if verdict is not None else {}
        agents = [name for name in candidates if name is not None and self._may_ask(name, context)]
        if not agents:
            raise FlowFailed(
                f"No verdict names the agents for {self.card.name!r}.",
                fix="Name it as the policy's `several`: it is not run by itself.",
            )
        return Plan(tasks=tuple(PlannedTask(name=name, agents=(name,)) for name in agents))

    def _may_ask(self, name: str, context: AgentContext) -> bool:
        """Checks that the agent is reachable for this caller and does not run this agent itself."""
        tree, own = context.tree, self.card.name
        if name == own or name not in tree or (name in tree.chain(own) and tree.card(name).is_composite):
            return False
        return tree.reachable(name, context.message_context.roles)

    def _join_results(self, unanswered: str, graph: Graph, ending: RunEnding) -> RunResult:
        """Joins the answers that exist, with a note for each missing one."""
        unfinished = interrupted_result(graph, ending)
        if unfinished is not None:
            return unfinished
        task_ends = ending.progress.task_ends
        if not any(task_end.status.is_success for task_end in task_ends.values()):
            return failed_result(graph, ending, tuple(graph.tasks))
        texts: Mapping[str, str] = {
            **{name: unanswered.replace("{agent}", name) for name in task_ends},
            **results(graph, ending.progress),
        }
        return RunResult(ending.reason, "\n\n".join(texts[name] for name in graph.tasks if texts[name]))


async def _verdict(context: AgentContext, message: Content) -> Verdict | None:
    """Returns the verdict for this message if it names several agents; None if the log has none."""
    async for page in context.history.backwards():
        for event in reversed(page):
            selection = event.actions.selection
            if event.author != USER or event.invocation_id != context.invocation_id or selection is None:
                continue
            content = event.actions.brief or event.content
            verdict = selection.verdicts[-1] if selection.verdicts else None
            if verdict is not None and verdict.also and content is not None and content.parts == message.parts:
                return verdict
            if event.actions.answers is None:  # the first message of the invocation
                return None
    return None
