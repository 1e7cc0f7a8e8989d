"""PlannedFlow: a flow with tasks that a planner creates for each request."""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from turnwise.agents.function import make_card
from turnwise.facts.content import Content
from turnwise.facts.errors import FlowDefinitionError, FlowFailed
from turnwise.facts.events import Event
from turnwise.facts.tree import AgentCard, AgentTree, Kind
from turnwise.flows.argument_checks import agent_name, as_tuple, check_positive, check_text
from turnwise.flows.control.running import run_design
from turnwise.flows.design import Design, make_design, run_rules
from turnwise.flows.flow import agent_objects, agents_to_run, check_agents_in_tree, check_single_agent
from turnwise.flows.plans.plan import Plan, check_plan, planner_question, planner_retry_question, read_plan, recorded_plan
from turnwise.flows.until import Until
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.ports.selector import Selector


class PlannedFlow:
    """An agent that lets other agents do each request, in tasks that a planner creates.

    The planner is called privately. It gets the request and the agents with their descriptions, and answers with the
    tasks as JSON. A plan is checked before any task runs, and its problems go back to the planner. The plan is
    recorded, and emitted as a data part named `plan`; a resumed run keeps it. The answer and the errors are those of
    Flow.

    Args:
        name: The flow's name.
        planner: The agent that creates the plan.
        agents: The agents that may do tasks, limited to those that the caller may reach.
        tries: The most attempts of the planner; then the run raises FlowFailed with the last problem.
        strategy: As in Flow.
        until: As in Flow; it may name tasks, which every plan must then contain.
        side_by_side: As in Flow.
        max_turns: As in Flow.
        max_tasks: The most tasks of a plan.
        description: The card's description.
        card: Other fields of AgentCard.

    Raises:
        FlowDefinitionError: There are no agents, or another value is not valid.
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
        check_text("A flow", "its name", name, instead='Give it first: PlannedFlow("name", …).')
        owner = f"The flow {name!r}"
        self.card: AgentCard = make_card({"name": name, "description": description, "kind": self.kind, **card})
        self.planner = agent_name(f"The planner of {name!r}", planner)
        self.agents = tuple(dict.fromkeys(agent_name(owner, agent) for agent in as_tuple(owner, "agents", agents)))
        self.children: Sequence[Agent] = agent_objects([planner, *agents])
        self.rules = run_rules(name, strategy, until, side_by_side, max_turns)
        self._tries, self.max_tasks = check_positive(owner, "tries", tries), check_positive(owner, "max_tasks", max_tasks)
        if not self.agents:
            raise FlowDefinitionError(f"No agent can do the tasks of {name!r}.", fix="Name agents.")
        check_single_agent(name, self.agents, self.rules.strategy)

    def __repr__(self) -> str:
        return f"PlannedFlow({self.card.name!r})"

    @property
    def delegates_to(self) -> Sequence[str]:
        """The names of all agents that the flow may run."""
        return agents_to_run((self.planner, *self.agents), self.rules.strategy)

    def check(self, tree: AgentTree) -> None:
        """Raises FlowDefinitionError if the flow names agents that do not exist or that contain it."""
        check_agents_in_tree(self.card.name, self.delegates_to, tree)

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        plan = await recorded_plan(context, partial(self._make_plan, context))
        async for event in run_design(self._design_of(plan), context):
            yield event

    async def _make_plan(self, context: AgentContext) -> Plan:
        """Gets a valid plan. Raises FlowFailed if the planner gives none; errors of the planner are not converted."""
        agents = self._reachable(context)
        request = planner_question(context.message, agents, self.max_tasks)
        current, problem = request, ""
        for number in range(1, self._tries + 1):
            answer = await context.call(self.planner, current, segment=f"plan#{number}")
            try:
                return self._read_valid_plan(answer, agents)
            except FlowDefinitionError as error:
                problem = f"{error.problem} {error.fix}".strip()
            current = planner_retry_question(request, answer, problem)
        tries = "once" if self._tries == 1 else f"{self._tries} times"
        raise FlowFailed(
            f"{self.planner!r} was asked {tries} for a plan of {self.card.name!r}, and gave none that can be used. Of the last "
            f"it was told: {problem}",
            fix="Mend its instructions, or give it more tries; its answers are in the log.",
        )

    def _reachable(self, context: AgentContext) -> Mapping[str, str]:
        """Returns the agents that the caller may reach, with their descriptions. Raises FlowFailed if there are none."""
        roles = context.message_context.roles
        descriptions = {
            name: context.tree.card(name).description for name in self.agents if context.tree.reachable(name, roles)
        }
        if not descriptions:
            problem = f"The caller may reach none of the agents of {self.card.name!r}, so there is nothing to plan."
            raise FlowFailed(problem, fix="Enable one of them, or give the caller a role that it is open to.")
        return descriptions

    def _read_valid_plan(self, answer: Content, agents: Mapping[str, str]) -> Plan:
        plan = read_plan(answer)
        check_plan(plan, tuple(agents), self.max_tasks)
        self._design_of(plan)
        return plan

    def _design_of(self, plan: Plan) -> Design:
        return make_design(self.card.name, plan.to_tasks(), self.rules)
