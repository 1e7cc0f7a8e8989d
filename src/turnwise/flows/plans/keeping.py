"""A plan put on record, once a run: whoever takes the run up again finds it there (behaviour D12)."""

from collections.abc import Awaitable, Callable

from turnwise.facts.errors import FlowFailed
from turnwise.facts.events import Event
from turnwise.flows.plans.plan import PLAN, Plan, plan_content, plan_of
from turnwise.flows.turns.turn import own_label
from turnwise.ports.assignment import EVERYTHING
from turnwise.ports.context import AgentContext, Show


async def kept(context: AgentContext, find: Callable[[], Awaitable[Plan]]) -> Plan:
    """The plan of this run of the flow whose turn it is: the recorded one, else what `find` gives, which is then said.

    FlowFailed when a guardrail does not let it be said, or it names agents that are there no more.
    """
    flow = context.card.name
    found = None if PLAN in context.recorded else await find()

    async def make(_: Show) -> Event:
        assert found is not None
        event = context.event(plan_content(flow, found), checkpoint=True)
        outer = context.assignment.scope if context.assignment is not None else EVERYTHING
        return event.model_copy(update={"scope": (own_label(flow, outer),)})

    said = await context.once(PLAN, make)
    plan = plan_of(said)
    if plan is None:
        by = repr(said.actions.guarded[-1].guardrail) if said.actions.guarded else "a guardrail"
        raise FlowFailed(f"The plan of {flow!r} was blocked by {by}.", fix=f"Let it pass the data part named {PLAN!r}.")
    gone = [name for name in plan.agents if name not in context.tree]
    if gone:
        problem = f"The plan of {flow!r} names the agent {gone[0]!r}, which does not exist any more."
        raise FlowFailed(problem, fix="Ask once more: a new run makes a new plan.")
    return plan
