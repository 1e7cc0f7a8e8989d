"""Flows with tasks that are known only during a run: PlannedFlow, planned for each request, and Several, for one message."""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from turnwise.agents.function import make_card
from turnwise.facts.content import OTHER, Content, text_in
from turnwise.facts.errors import FlowDefinitionError, FlowFailed
from turnwise.facts.events import USER, Event
from turnwise.facts.selections import Verdict
from turnwise.facts.tree import AgentCard, AgentTree, Kind
from turnwise.flows.argument_checks import agent_name, as_tuple, check_positive, check_text
from turnwise.flows.controller import RunEnding, RunResult, failed_result, interrupted_result, results, run_design
from turnwise.flows.design import Design, make_design, run_rules
from turnwise.flows.flow import Flow, agent_objects, agents_to_run, check_agents_in_tree, check_single_agent
from turnwise.flows.plan import (
    Plan,
    PlannedTask,
    check_plan,
    planner_question,
    planner_retry_question,
    read_plan,
    recorded_plan,
)
from turnwise.flows.tasks import Graph
from turnwise.flows.until import Until
from turnwise.matching.language import language_of
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.ports.selector import Selector

UNANSWERED = "{agent} could not answer its part."


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


AnyFlow = Flow | PlannedFlow | Several
"""Any flow. Its `graph` is None if its tasks are known only during a run."""


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
