"""One message that asks several agents for something: each answers its part, side by side."""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from turnwise.agents.function import make_card
from turnwise.facts.cards import AgentCard, Kind
from turnwise.facts.content import Content
from turnwise.facts.errors import FlowFailed
from turnwise.facts.events import USER, Event
from turnwise.facts.selections import Verdict
from turnwise.flows.arguments import text
from turnwise.flows.control.controller import RunEnding
from turnwise.flows.control.running import RunResult, failed_result, interrupted_result, results, run_design
from turnwise.flows.design import make_design, run_rules
from turnwise.flows.plans.plan import Plan, PlannedTask, recorded_plan
from turnwise.flows.tasks.graph import Graph
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext

UNANSWERED = "{agent} could not answer its part."


class Several:
    """An agent for messages that ask for several things, for a policy's `several`.

    Who is asked stands in the verdict that routed the message: the agent that was chosen, and those in `also`, anywhere in the
    tree. Each is given the message as it is, and answers as it always does, except that it cannot hand over. The answer is
    all of theirs, one below the other, whoever was chosen first; for one that failed it says `unanswered`, with its name in
    place of `{agent}`. FlowFailed when all failed, or no verdict names agents for what it was asked.

    By its card it is not routable: nobody is chosen for what such messages are about. It must not be the agents' parent.
    """

    kind: ClassVar[Kind] = "flow"
    graph: ClassVar[None] = None
    children: Sequence[Agent] = ()

    def __init__(self, name: str = "several", *, unanswered: str = UNANSWERED, **card: Any) -> None:
        self.card: AgentCard = make_card({"name": name, "kind": self.kind, "routable": False, **card})
        self._conduct = run_rules(name)
        self._unanswered = text(f"The flow {name!r}", "unanswered", unanswered)

    def __repr__(self) -> str:
        return f"Several({self.card.name!r})"

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        plan = await recorded_plan(context, partial(self._asked, context))
        everybody = self._conduct._replace(side_by_side=len(plan.tasks))
        design = make_design(self.card.name, plan.made(), everybody, relays=True)
        async for event in run_design(design, context, self._judged):
            yield event

    async def _asked(self, context: AgentContext) -> Plan:
        """A task for each agent of whom the message asks something."""
        part = context.assignment
        verdict = await _verdict(context, part.request if part is not None else context.message)
        named = dict.fromkeys((verdict.agent, *verdict.also)) if verdict is not None else {}
        agents = [name for name in named if name is not None and self._may_ask(name, context)]
        if not agents:
            raise FlowFailed(
                f"No verdict says whom {self.card.name!r} is to ask.",
                fix="Name it as the policy's `several`: it is not run by itself.",
            )
        return Plan(tasks=tuple(PlannedTask(name=name, agents=(name,)) for name in agents))

    def _may_ask(self, name: str, context: AgentContext) -> bool:
        """Whether it is there for this caller, and does not run this agent itself."""
        tree, own = context.tree, self.card.name
        if name == own or name not in tree or (name in tree.chain(own) and tree.card(name).is_composite):
            return False
        return tree.reachable(name, context.message_context.roles)

    def _judged(self, graph: Graph, ending: RunEnding) -> RunResult:
        """What there is of an answer is the answer, with a word on each part that is missing."""
        unfinished = interrupted_result(graph, ending)
        if unfinished is not None:
            return unfinished
        closings = ending.progress.closings
        if not any(closing.status.is_success for closing in closings.values()):
            return failed_result(graph, ending, tuple(graph.tasks))
        texts: Mapping[str, str] = {
            **{name: self._unanswered.replace("{agent}", name) for name in closings},
            **results(graph, ending.progress),
        }
        return RunResult(ending.reason, "\n\n".join(texts[name] for name in graph.tasks if texts[name]))


async def _verdict(context: AgentContext, message: Content) -> Verdict | None:
    """The verdict that decided on this message, if it names several agents; None when the log holds none."""
    async for page in context.history.backwards():
        for event in reversed(page):
            selection = event.actions.selection
            if event.author != USER or event.invocation_id != context.invocation_id or selection is None:
                continue
            said = event.actions.brief or event.content
            last = selection.verdicts[-1] if selection.verdicts else None
            if last is not None and last.also and said is not None and said.parts == message.parts:
                return last
            if event.actions.answers is None:  # the message with which the invocation began
                return None
    return None
