"""A flow whose tasks are made for each request, by a planner."""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from turnwise.agents.function import make_card
from turnwise.facts.cards import AgentCard, Kind
from turnwise.facts.content import Content
from turnwise.facts.errors import FlowDefinitionError, FlowFailed
from turnwise.facts.events import Event
from turnwise.facts.tree import AgentTree
from turnwise.flows.design import Design, conduct, designed, refuse_below_one
from turnwise.flows.members import name_of, objects_in, refuse_strangers
from turnwise.flows.plans.asking import again, question
from turnwise.flows.plans.keeping import kept
from turnwise.flows.plans.plan import Plan, read_plan, refuse_unfit
from turnwise.flows.running import run_design
from turnwise.flows.until import Until
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.ports.selector import Selector


class PlannedFlow:
    """An agent that has each request done by others, in tasks that a planner makes for it.

    planner: is asked in private for the tasks, as JSON; it is told the request, and the agents with their descriptions. A plan
    is checked before anything runs: what is wrong with it goes back to the planner, which has so many `tries` in all, then
    FlowFailed says it. agents: who may do the tasks, of those whom the caller may reach. max_tasks: how many a plan may have.
    The rest, its answer and its errors are as of Flow.

    The plan is on record, and said in the log as data named `plan`: who takes the run up again keeps it. `until` may name tasks
    that every plan has to have. FlowDefinitionError for numbers below 1, and when there are no agents.
    """

    kind: ClassVar[Kind] = "flow"
    graph: ClassVar[None] = None

    def __init__(
        self,
        name: str,
        *,
        planner: Agent | str,
        agents: Sequence[Agent | str],
        tries: int = 3,
        strategy: Selector | None = None,
        until: Until | None = None,
        side_by_side: int = 1,
        max_turns: int | None = None,
        max_tasks: int = 20,
        description: str = "",
        **card: Any,
    ) -> None:
        self.card: AgentCard = make_card({"name": name, "description": description, "kind": self.kind, **card})
        self.children: Sequence[Agent] = objects_in([planner, *agents])
        self.planner, self.agents = name_of(planner), tuple(dict.fromkeys(map(name_of, agents)))
        self.conduct = conduct(name, strategy, until, side_by_side, max_turns)
        self._tries, self.max_tasks = tries, max_tasks
        for what, number in (("tries", tries), ("max_tasks", max_tasks)):
            refuse_below_one(name, what, number)
        if not self.agents:
            raise FlowDefinitionError(f"Nobody is there to do the tasks of {name!r}.", fix="Name agents.")

    def __repr__(self) -> str:
        return f"PlannedFlow({self.card.name!r})"

    def check(self, tree: AgentTree) -> None:
        """FlowDefinitionError when it names agents that are not there, or hold the flow itself."""
        refuse_strangers(self.card.name, [self.planner, *self.agents], self.conduct.strategy, tree)

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        plan = await kept(context, partial(self._plan, context))
        async for event in run_design(self._designed(plan), context):
            yield event

    async def _plan(self, context: AgentContext) -> Plan:
        """A plan without a flaw. FlowFailed when the planner gives none; its own errors as they are."""
        agents = self._reachable(context)
        asked = question(context.message, agents, self.max_tasks)
        told, problem = asked, ""
        for number in range(1, self._tries + 1):
            answer = await context.call(self.planner, told, segment=f"plan#{number}")
            try:
                return self._checked(answer, agents)
            except FlowDefinitionError as flaw:
                problem = f"{flaw.problem} {flaw.fix}".strip()
            told = again(asked, answer, problem)
        tries = "once" if self._tries == 1 else f"{self._tries} times"
        raise FlowFailed(f"{self.planner!r} was asked {tries} for a plan of {self.card.name!r} and gave none. {problem}")

    def _reachable(self, context: AgentContext) -> Mapping[str, str]:
        """Who may do something for this caller, with their descriptions."""
        roles = context.message_context.roles
        found = {name: context.tree.card(name).description for name in self.agents if context.tree.reachable(name, roles)}
        if not found:
            raise FlowFailed(f"None of the agents of {self.card.name!r} may be reached.")
        return found

    def _checked(self, answer: Content, agents: Mapping[str, str]) -> Plan:
        plan = read_plan(answer)
        refuse_unfit(plan, tuple(agents), self.max_tasks)
        self._designed(plan)
        return plan

    def _designed(self, plan: Plan) -> Design:
        return designed(self.card.name, plan.made(), self.conduct)
