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
from turnwise.flows.arguments import agent_name, at_least_one, listed, text
from turnwise.flows.control.running import run_design
from turnwise.flows.design import Design, make_design, run_rules
from turnwise.flows.members import all_named, objects_in, refuse_absent, refuse_strangers
from turnwise.flows.plans.plan import Plan, question, question_again, read_plan, recorded_plan, refuse_unfit
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
    that every plan has to have. FlowDefinitionError when there are no agents, and for whatever else no flow can be made of.
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
        text("A flow", "its name", name, instead='Give it first: PlannedFlow("name", …).')
        owner = f"The flow {name!r}"
        self.card: AgentCard = make_card({"name": name, "description": description, "kind": self.kind, **card})
        self.planner = agent_name(f"The planner of {name!r}", planner)
        self.agents = tuple(dict.fromkeys(agent_name(owner, agent) for agent in listed(owner, "agents", agents)))
        self.children: Sequence[Agent] = objects_in([planner, *agents])
        self.conduct = run_rules(name, strategy, until, side_by_side, max_turns)
        self._tries, self.max_tasks = at_least_one(owner, "tries", tries), at_least_one(owner, "max_tasks", max_tasks)
        if not self.agents:
            raise FlowDefinitionError(f"Nobody is there to do the tasks of {name!r}.", fix="Name agents.")
        refuse_absent(name, self.agents, self.conduct.strategy)

    def __repr__(self) -> str:
        return f"PlannedFlow({self.card.name!r})"

    @property
    def delegates_to(self) -> Sequence[str]:
        """The names of all whom it may run."""
        return all_named((self.planner, *self.agents), self.conduct.strategy)

    def check(self, tree: AgentTree) -> None:
        """FlowDefinitionError when it names agents that are not there, or hold the flow itself."""
        refuse_strangers(self.card.name, self.delegates_to, tree)

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        plan = await recorded_plan(context, partial(self._plan, context))
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
            told = question_again(asked, answer, problem)
        tries = "once" if self._tries == 1 else f"{self._tries} times"
        raise FlowFailed(
            f"{self.planner!r} was asked {tries} for a plan of {self.card.name!r}, and gave none that can be used. Of the last "
            f"it was told: {problem}",
            fix="Mend its instructions, or give it more tries; its answers are in the log.",
        )

    def _reachable(self, context: AgentContext) -> Mapping[str, str]:
        """Who may do something for this caller, with their descriptions."""
        roles = context.message_context.roles
        found = {name: context.tree.card(name).description for name in self.agents if context.tree.reachable(name, roles)}
        if not found:
            problem = f"The caller may reach none of the agents of {self.card.name!r}, so there is nothing to plan."
            raise FlowFailed(problem, fix="Enable one of them, or give the caller a role that it is open to.")
        return found

    def _checked(self, answer: Content, agents: Mapping[str, str]) -> Plan:
        plan = read_plan(answer)
        refuse_unfit(plan, tuple(agents), self.max_tasks)
        self._designed(plan)
        return plan

    def _designed(self, plan: Plan) -> Design:
        return make_design(self.card.name, plan.made(), self.conduct)
