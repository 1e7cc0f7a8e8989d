"""What cannot be a flow is refused when it is made, or when a Runner is made with it (D10)."""

from collections.abc import Callable
from typing import Any

import pytest
from runner_play import ask, direct, reason

from turnwise import Runner, Sequential, agent
from turnwise.facts.errors import FlowDefinitionError, TurnwiseError
from turnwise.flows.flow import Flow
from turnwise.flows.planned import PlannedFlow
from turnwise.flows.strategies import Moderated, Single
from turnwise.flows.tasks import Task
from turnwise.flows.until import AnyFailed
from turnwise.ports.agent import Agent

Process = Callable[..., Runner]


def doing(name: str) -> Agent:
    @agent(name=name)
    def does() -> str:
        return f"{name} did it"

    return does


def _flow_in_itself() -> Agent:
    inner = Flow("inner", [Task("one", agents=["flow"])])
    return Flow("flow", [Task("one", agents=[inner])])


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Flow("flow", [Task("a", agents=["x"], depends_on=["b"]), Task("b", agents=["x"], depends_on=["a"])]), "cycle"),
        (lambda: Flow("flow", [Task("a", agents=["nobody"])]), "'nobody', which does not exist"),
        (lambda: Flow("flow", [Task("a", agents=["x"], result=object())]), "is an object, which is no type"),
        (lambda: Flow("flow", [Task("a", agents=["x"]), Task("a", agents=["x"])]), "two tasks named 'a'"),
        (lambda: Flow("flow", [Task("a", agents=["flow"])]), "names itself"),
        (_flow_in_itself, "in which it stands itself"),
        (lambda: Flow("flow", [Task("a")]), "No agent can do the task 'a'"),
        (lambda: Flow("flow", [Task("a", agents=["x"])], targets=["b"]), "no task 'b'"),
        (lambda: Flow("flow", [Task("a", agents=["x"])], until=AnyFailed("b")), "no task 'b'"),
        (lambda: Flow("flow", [Task("a", agents=[doing("x")])], strategy=Moderated("m")), "'m', which does not exist"),
        (lambda: Flow("flow", [Task("a", agents=["x"])], side_by_side=0), "side_by_side is 0"),
        (lambda: Flow("flow", [Task("a", agents=["x"])], max_turns=0), "max_turns is 0"),
        (lambda: Flow("flow"), "has no tasks"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(process: Process, build: Callable[[], Any], says: str) -> None:
    """D10: with the flow's name, and what is wrong."""
    with pytest.raises(FlowDefinitionError, match=says) as raised:
        process(build())
    assert isinstance(raised.value, TurnwiseError)


def _beside(*flows: Agent) -> Agent:
    return agent(name="root", children=flows)(lambda: "")


EACH_OTHER: list[tuple[Callable[[], Agent], str]] = [
    (
        lambda: _beside(Flow("a", [Task("t", agents=["b"])]), Flow("b", [Task("t", agents=["a"])])),
        "'a' runs 'b' runs 'a'",
    ),
    (
        lambda: _beside(Flow("a", [Task("t", agents=["s"])]), Sequential("s", [Flow("b", [Task("t", agents=["a"])])])),
        "'a' runs 's' runs 'b' runs 'a'",
    ),
    (
        lambda: _beside(
            Flow("a", [Task("t", agents=[doing("x")])], strategy=Moderated("b")),
            Flow("b", [Task("t", agents=["x"])], strategy=Moderated("a")),
        ),
        "'a' runs 'b' runs 'a'",
    ),
    (
        lambda: _beside(PlannedFlow("a", planner="b", agents=[doing("x")]), PlannedFlow("b", planner="x", agents=["a"])),
        "'a' runs 'b' runs 'a'",
    ),
]


@pytest.mark.parametrize(("build", "says"), EACH_OTHER)
def test_flows_that_run_each_other_are_refused_before_anything_runs(
    process: Process, build: Callable[[], Agent], says: str
) -> None:
    """D10: also through what stands between them."""
    with pytest.raises(FlowDefinitionError, match=says):
        process(build())


def test_flows_that_run_one_flow_are_no_circle(process: Process) -> None:
    process(
        _beside(
            Flow("a", [Task("t", agents=["c"])]),
            Flow("b", [Task("t", agents=["a", "c"])]),
            Flow("c", [Task("t", agents=[doing("x")])]),
        )
    )


async def test_a_flow_in_use_takes_no_more_tasks(process: Process) -> None:
    """Its agents are known by then: whoever did a task that came later would be none of them."""
    flow = Flow("flow")

    @flow.task
    def one() -> str:
        return "1"

    def two() -> str:
        return "2"

    runner = process(flow)
    with pytest.raises(FlowDefinitionError, match=r"'flow' is in use already.*before a Runner is made"):
        flow.task(two)
    result = await ask(runner, "go", context=direct("flow"))
    assert (reason(result), result.text) == ("completed", "1")


X = doing("x")
WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: Flow("flow", [Task("a")], agents=[None]), "'flow': None is no agent"),  # type: ignore[list-item]
    (lambda: Flow("flow", [Task("a")], agents=X), "'flow': agents is a FunctionAgent. Give a list"),  # type: ignore[arg-type]
    (lambda: Flow("flow", [Task("a")], agents="x"), "'flow': agents is a str. Give a list"),
    (lambda: Flow("flow", Task("a", agents=[X])), "'flow': tasks is a Task. Give a list"),  # type: ignore[arg-type]
    (lambda: Flow("flow", [X]), "'flow' has a FunctionAgent among its tasks"),  # type: ignore[list-item]
    (lambda: Flow("flow", [Task("a", agents=[X])], targets="a"), "'flow': targets is a str"),
    (lambda: Flow("flow", [Task("a", agents=[X])], targets=[X]), "a FunctionAgent is no task"),  # type: ignore[list-item]
    (lambda: Flow([Task("a", agents=[X])]), r"its name is a list. Give it first: Flow\("),  # type: ignore[arg-type]
    (lambda: Flow("flow", [Task("a", agents=[X])], strategy=Single("y")), "'flow': Single gives every turn to 'y'.*Known: x"),
    (lambda: PlannedFlow("flow", planner=None, agents=[X]), "The planner of 'flow': None is no agent"),  # type: ignore[arg-type]
    (lambda: PlannedFlow("flow", planner="p", agents=X), "'flow': agents is a FunctionAgent"),  # type: ignore[arg-type]
    (lambda: PlannedFlow("flow", planner="p", agents=["x"], tries="3"), "'flow': tries is a str"),  # type: ignore[arg-type]
    (lambda: PlannedFlow("flow", planner="p", agents=["x"], max_tasks=2.5), "max_tasks is a float"),  # type: ignore[arg-type]
    (lambda: PlannedFlow("flow", planner="p", agents=["x"], strategy=Single("p")), "Single gives every turn to 'p'"),
    (lambda: PlannedFlow(["flow"], planner="p", agents=["x"]), "its name is a list"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("build", "says"), WRONG)
def test_what_no_flow_is_made_of_is_refused_at_once(build: Callable[[], Any], says: str) -> None:
    """Before there is a Runner, and with what to do."""
    with pytest.raises(FlowDefinitionError, match=says) as raised:
        build()
    assert raised.value.fix


def test_targets_are_tasks_or_their_names() -> None:
    one, two = Task("a", agents=[X]), Task("b", agents=["x"])
    assert Flow("flow", [one, two], targets=[one, "b"]).design.targets == ("a", "b")


def test_who_is_named_twice_gets_a_task_once() -> None:
    assert Flow("flow", [Task("a")], agents=[X, "x"]).design.agents == ("x",)
