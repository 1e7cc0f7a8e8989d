"""Random flows for property tests: any tasks, agents that do whatever an agent may do, any strategy."""

from collections.abc import Iterator, Sequence
from itertools import chain, cycle
from typing import Any, NamedTuple

from graph_play import acyclic
from hypothesis import strategies as st

from turnwise import AgentContext, LlmAgent, agent
from turnwise.agents.function import FunctionAgent
from turnwise.facts.errors import ToolFailed
from turnwise.flows.flow import Flow
from turnwise.flows.strategies import MostBusy, Popcorn, Random, RoundRobin, Single
from turnwise.flows.tasks import Task
from turnwise.flows.until import AnyFailed, MaxModelCalls, MaxTurns, Until
from turnwise.ports.agent import Agent
from turnwise.ports.model import ModelRequest
from turnwise.ports.selector import Selector
from turnwise.testing.models import FunctionModel, calls

AGENTS = ("ann", "bob", "cid", "dot")
DEEDS = ("succeed", "fail", "raise", "end_turn", "say", "wrong", "nothing", "all")
STRATEGIES = ("none", "popcorn", "single", "round-robin", "random", "most-busy")
UNTIL: dict[str, Any] = {
    "none": lambda: None,
    "failed": AnyFailed,
    "turns": lambda: MaxTurns(4),
    "calls": lambda: MaxModelCalls(3),
}


class Deed(NamedTuple):
    """What an agent does in one turn. colleague: whom it names, if anyone."""

    what: str
    colleague: str | None = None


class Plan(NamedTuple):
    """A flow that is not built yet. who: for each task, who may do it; numbers: which tasks have a number as their result;
    models: which agents think with a model; deeds: what is done in one turn after the other, over and over.
    """

    tasks: Sequence[Task]
    who: Sequence[Sequence[str]]
    numbers: Sequence[bool]
    models: Sequence[bool]
    deeds: Sequence[Deed]
    strategy: str
    until: str
    side_by_side: int


def plans() -> st.SearchStrategy[Plan]:
    deed = st.builds(Deed, st.sampled_from(DEEDS), st.one_of(st.none(), st.sampled_from([*AGENTS, "nobody"])))
    who = st.lists(st.sampled_from(AGENTS), unique=True, min_size=1, max_size=3)
    return st.builds(
        Plan,
        acyclic(),
        st.lists(who, min_size=10, max_size=10),
        st.lists(st.booleans(), min_size=10, max_size=10),
        st.lists(st.booleans(), min_size=len(AGENTS), max_size=len(AGENTS)),
        st.lists(deed, min_size=1, max_size=12).map(lambda deeds: [*deeds, Deed("succeed")]),
        st.sampled_from(STRATEGIES),
        st.sampled_from(sorted(UNTIL)),
        st.integers(1, 3),
    )


def build(plan: Plan) -> Flow:
    deeds = chain(plan.deeds, cycle([*plan.deeds, Deed("succeed")]))
    tasks = [
        Task(task.name, agents=who, depends_on=task.depends_on, parent=task.parent, run_if=task.run_if, result=result)
        for task, who, result in zip(plan.tasks, plan.who, [int if number else str for number in plan.numbers], strict=False)
    ]
    agents = [_agent(name, is_model, deeds) for name, is_model in zip(AGENTS, plan.models, strict=True)]
    until: Until | None = UNTIL[plan.until]()
    strategy = _strategy(plan)
    return Flow("flow", tasks, agents=agents, strategy=strategy, until=until, side_by_side=plan.side_by_side, max_turns=30)


def _strategy(plan: Plan) -> Selector | None:
    made: dict[str, Selector | None] = {
        "none": None,
        "popcorn": Popcorn(),
        "single": Single(plan.who[0][0]),  # one who may do nothing in the flow is refused
        "round-robin": RoundRobin(),
        "random": Random(3),
        "most-busy": MostBusy(),
    }
    return made[plan.strategy]


def _agent(name: str, is_model: bool, deeds: Iterator[Deed]) -> Agent:
    if is_model:
        return LlmAgent(name, model=FunctionModel(lambda request: _called(request, next(deeds))), max_steps=3)
    return _function(name, deeds)


def _function(name: str, deeds: Iterator[Deed]) -> FunctionAgent:
    @agent(name=name)
    async def work(context: AgentContext) -> str | None:
        part, deed = context.assignment, next(deeds)
        assert part is not None
        fits: Any = 1 if part.tasks[0].result else "yes"
        if deed.what in ("succeed", "all"):
            await part.succeed(fits)
        elif deed.what == "fail":
            await part.fail("It cannot be.")
        elif deed.what == "raise":
            raise ValueError("broken")
        elif deed.what == "end_turn":
            try:
                await part.end_turn(next=deed.colleague, message="Go on.")
            except ToolFailed:
                await part.end_turn()
        elif deed.what == "wrong":
            await part.succeed([])
        tag = f"<next>{deed.colleague}</next>" if deed.colleague else ""
        return f"1{tag}" if deed.what == "say" else None

    return work


def _called(request: ModelRequest, deed: Deed) -> Any:
    by_name = {tool.name: tool.parameters for tool in request.tools}
    ends = {name: 1 if _is_number(schema) else "yes" for name, schema in by_name.items() if name.startswith("task_succeeded")}
    first = next(iter(ends))
    if deed.what == "succeed":
        return calls(first, {"result": ends[first]})
    if deed.what == "all":
        return [calls(name, {"result": result}) for name, result in ends.items()]
    if deed.what == "fail":
        tasks: Any = by_name["task_failed"]["properties"]
        which = {"task": tasks["task"]["enum"][-1]} if "task" in tasks else {}
        return calls("task_failed", {"reason": "It cannot be.", **which})
    if deed.what == "end_turn":
        return calls("end_turn", {"message": "Go on.", **({"next": deed.colleague} if deed.colleague else {})})
    if deed.what == "wrong":
        return calls(first, {"result": []})
    if deed.what == "raise":
        return ValueError("broken")
    return "I think it over." if deed.what == "say" else ""


def _is_number(schema: Any) -> bool:
    return bool(schema["properties"]["result"].get("type") == "integer")
