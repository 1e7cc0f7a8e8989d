"""How flows end that do not come to their end by themselves: limits, conditions, failures, nobody there (D2, D10, D11)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from flow_play import closings, ended, statuses, turns
from runner_play import ask, direct, reason, soon

from turnwise import AgentContext, Limits, LlmAgent, RunConfig, Runner, Sequential, agent
from turnwise.agents.function import make_card
from turnwise.facts.errors import ArtifactName, ConfigError, StoreUnavailable
from turnwise.facts.events import Event
from turnwise.flows.flow import Flow
from turnwise.flows.strategies import Moderated
from turnwise.flows.tasks import Task
from turnwise.flows.until import AnyComplete, AnyFailed, MaxModelCalls, MaxTurns
from turnwise.ports.agent import Agent
from turnwise.ports.selector import Selector
from turnwise.testing.models import FunctionModel, calls

Process = Callable[..., Runner]


def doing(name: str) -> Agent:
    @agent(name=name)
    def does() -> str:
        return f"{name} did it"

    return does


def raising(name: str, problem: BaseException, **card: Any) -> Agent:
    @agent(name=name, **card)
    def raises() -> str:
        raise problem

    return raises


def idle(name: str, **options: Any) -> LlmAgent:
    """Talks, and never ends its task."""
    return LlmAgent(name, model=FunctionModel(lambda _: "Well."), **options)


async def run(process: Process, flow: Agent, **options: Any) -> Any:
    return await soon(ask(process(flow, **options), "go", context=direct("flow")))


async def test_ten_turns_a_task_are_the_limit(process: Process) -> None:
    """D10: who talks on is stopped, and the caller is told why."""
    result = await run(process, Flow("flow", [Task("one", agents=[idle("a")])]))
    assert (reason(result), result.error.code) == ("limit:turns", "limit")
    assert "limits.turns" not in result.error.message
    assert (ended(result.events)["turns"], statuses(result.events)) == (10, {"one": "pending"})


@pytest.mark.parametrize(
    ("until", "expected", "count"),
    [
        (MaxTurns(2), "limit:turns", 2),
        (MaxModelCalls(3), "limit:model_calls", 3),
        (AnyComplete("one") | MaxTurns(4), "limit:turns", 4),
        (AnyFailed() & MaxTurns(2), "limit:turns", 5),
    ],
)
async def test_a_condition_ends_it(process: Process, until: Any, expected: str, count: int) -> None:
    """D11."""
    result = await run(process, Flow("flow", [Task("one", agents=[idle("a")])], until=until, max_turns=5))
    assert (reason(result), ended(result.events)["turns"]) == (expected, count)


async def test_the_first_end_is_enough(process: Process) -> None:
    """D11: what was not begun stays pending, and nobody is at fault."""
    flow = Flow("flow", [Task("one", agents=[doing("a")]), Task("two", agents=[doing("b")])], until=AnyComplete())
    result = await run(process, flow)
    assert (reason(result), statuses(result.events)) == ("completed", {"one": "successful", "two": "pending"})
    assert result.text.splitlines()[-1] == "a did it"


async def test_the_first_failure_is_enough(process: Process) -> None:
    flow = Flow("flow", [Task("one", agents=[raising("a", ValueError("no"))]), Task("two", agents=[doing("b")])])
    stopped = Flow("flow", [Task("one", agents=["a"]), Task("two", agents=["b"])], agents=flow.children, until=AnyFailed())
    result = await run(process, stopped)
    assert (reason(result), statuses(result.events)) == ("failed", {"one": "failed", "two": "pending"})


async def test_answers_of_models_count_however_their_turn_ended(process: Process) -> None:
    """D11: those of a turn that failed, too."""
    loops = LlmAgent("a", model=FunctionModel(lambda _: calls("nothing_like_that")), max_steps=3)
    tasks = [Task("one", agents=[loops]), Task("two", agents=[doing("b")])]
    result = await run(process, Flow("flow", tasks, until=MaxModelCalls(3)))
    assert (ended(result.events)["model_calls"], reason(result)) == (3, "limit:model_calls")


@pytest.mark.parametrize(
    "problem",
    [ValueError("broken"), ArtifactName("The name is bad."), ConfigError("No key."), SystemExit(1), asyncio.CancelledError()],
)
async def test_what_an_agent_raises_is_its_tasks_failure(process: Process, problem: BaseException) -> None:
    """D2: it fails what depends on it, and nothing else."""
    tasks = [
        Task("one", agents=[raising("a", problem)]),
        Task("two", agents=[doing("b")], depends_on=["one"]),
        Task("three", agents=[doing("c")]),
        Task("four", agents=[doing("d")], depends_on=["two", "three"], run_if="always"),
    ]
    result = await run(process, Flow("flow", tasks, side_by_side=2))
    assert statuses(result.events) == {"one": "failed", "two": "skipped", "three": "successful", "four": "successful"}
    assert reason(result) == "completed"
    assert result.error is None  # it ended well, so nothing is to be told of it
    assert closings(result.events)["one"].reason.startswith("Agent 'a' ")


async def test_what_the_store_raises_ends_the_run(process: Process) -> None:
    """That is no task's failure, whoever met it."""
    tasks = [Task("one", agents=[raising("a", StoreUnavailable("It is away."))])]
    result = await run(process, Flow("flow", tasks))
    assert (reason(result), closings(result.events)) == ("failed", {})


async def test_an_agent_that_takes_too_long_fails_its_task(process: Process) -> None:
    @agent(name="a", time_limit=0.05)
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    result = await run(process, Flow("flow", [Task("one", agents=[slow]), Task("two", agents=[doing("b")])]))
    assert statuses(result.events) == {"one": "failed", "two": "successful"}
    assert "took longer than" in closings(result.events)["one"].reason


async def test_the_limit_of_events_ends_it(process: Process) -> None:
    """It is the whole invocation's, and no task's failure."""
    tasks = [Task(f"t{number}", agents=[doing(f"a{number}")]) for number in range(20)]
    config = RunConfig(limits=Limits(events=20))
    result = await run(process, Flow("flow", tasks), config=config)
    assert reason(result) == "limit:events"
    assert all(each.status == "successful" for each in closings(result.events).values())


async def test_the_limit_of_time_ends_it(process: Process) -> None:
    config = RunConfig(deadline_seconds=0.3, limits=Limits(grace_seconds=0.1))

    @agent(name="a")
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    result = await run(process, Flow("flow", [Task("one", agents=[slow])]), config=config)
    assert (reason(result), closings(result.events)) == ("limit:invocation_seconds", {})


async def test_nobody_who_may(process: Process) -> None:
    """D10: a task is ready, and its only agent is not open to the caller: what can be done is done first."""

    @agent(name="boss", roles=["staff"])
    def boss() -> str:
        return "signed"

    flow = Flow("flow", [Task("sign", agents=[boss]), Task("write", agents=[doing("a")])])
    result = await run(process, flow)
    assert (reason(result), result.error.code) == ("failed", "agent.flow_stuck")
    assert "'sign'" in result.error.message
    told = ended(result.events)
    assert (told["reason"], statuses(result.events)) == ("stuck", {"sign": "pending", "write": "successful"})


async def test_only_what_the_targets_need_is_done(process: Process) -> None:
    """D3: the answer is the targets' results, and their failure the flow's, whoever else needs them."""

    def flow(first: Agent) -> Flow:
        return Flow(
            "flow",
            [
                Task("one", agents=[first]),
                Task("two", agents=["b"], depends_on=["one"]),
                Task("three", agents=["b"], depends_on=["two"]),
                Task("four", agents=["b"]),
            ],
            agents=[doing("b")],
            targets=["two"],
        )

    result = await run(process, flow(doing("a")))
    assert (reason(result), result.text.splitlines()[-1]) == ("completed", "b did it")
    assert statuses(result.events) == {"one": "successful", "two": "successful"}
    lost = await run(process, flow(raising("a", ValueError("no"))))
    assert (reason(lost), lost.error.code) == ("failed", "agent.flow_failed")


@pytest.mark.parametrize("says", ["b", "Nobody, I think.", ValueError("broken")])
async def test_a_moderator_is_asked_and_not_relied_on(process: Process, says: Any) -> None:
    """D5: without a word of it that names somebody, the first of the pool has the turn."""
    moderator = LlmAgent("m", model=FunctionModel(lambda _: says))

    flow = Flow(
        "flow",
        [Task("one", agents=[doing("a")]), Task("two", agents=[doing("b")])],
        strategy=Moderated("m"),
    )
    result = await soon(ask(process(Sequential("root", [flow, moderator])), "go", context=direct("root")))
    assert [who for who, _, _ in turns(result.events)] == (["b", "a"] if says == "b" else ["a", "b"])


class Odd(Selector):
    name = "odd"

    async def select(self, request: Any) -> Any:
        raise RuntimeError("broken")


async def test_a_strategy_that_raises_is_passed_over(process: Process) -> None:
    result = await run(process, Flow("flow", [Task("one", agents=[doing("a")])], strategy=Odd()))
    assert (reason(result), [how for _, how, _ in turns(result.events)]) == ("completed", ["first"])


class GoesBack:
    """An agent that does not say whom it runs."""

    def __init__(self) -> None:
        self.card, self.children = make_card({"name": "other"}), ()

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        await context.delegate("flow", segment="flow")
        return
        yield


async def test_a_flow_that_would_be_run_for_its_own_task_is_found_out(process: Process) -> None:
    """D10: it does not run without an end."""
    result = await run(process, Flow("flow", [Task("out", agents=[GoesBack()])]))
    assert reason(result) == "failed"
    assert "The flow 'flow' would be run for one of its own tasks." in result.error.message
