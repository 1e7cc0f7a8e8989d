"""Whom a task may be given: composites, agents elsewhere in the tree, other flows, agents of other libraries (D3)."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from flow_play import closings, done, ended, statuses, turns, words
from runner_play import ask, direct, reason

from turnwise import AgentContext, Content, LlmAgent, Parallel, Runner, Sequential, Team, agent
from turnwise.agents.function import make_card
from turnwise.facts.content import DataPart
from turnwise.facts.events import Event
from turnwise.flows.flow import Flow
from turnwise.flows.strategies import Single
from turnwise.flows.tasks import Task
from turnwise.ports.agent import Agent
from turnwise.testing.models import ScriptedModel

Process = Callable[..., Runner]


def echo(name: str, **card: Any) -> Agent:
    @agent(name=name, **card)
    def echoes(message: str) -> str:
        return f"{name}: {message.splitlines()[-1]}"

    return echoes


class Remote:
    """Answers as an agent of another library, or in another place, does: with its last word."""

    def __init__(self, name: str, *words: str | Content) -> None:
        self.card = make_card({"name": name, "kind": "remote"})
        self.children: tuple[Agent, ...] = ()
        self.heard: list[str] = []
        self._words = words

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        self.heard.append(context.message.text)
        for word in self._words:
            yield context.event(word)


@pytest.mark.parametrize("kind", [Sequential, Parallel])
async def test_a_composite_does_one_task_with_all_it_has(process: Process, kind: Any) -> None:
    """Its last word is the result; each of its agents is told the task."""
    work = kind("work", [echo("first"), echo("second")])
    result = await ask(process(Flow("flow", [Task("one", "Say hello", agents=[work])])), "go", context=direct("flow"))
    assert reason(result) == "completed"
    assert closings(result.events)["one"].result in (
        "second: Your task 'one': Say hello",
        "first: Your task 'one': Say hello",
    )
    said = [event.text for event in result.events if event.author == "first"]
    assert said == ["first: Your task 'one': Say hello"]


async def test_a_team_does_a_task(process: Process) -> None:
    team = Team("team", [echo("front"), echo("back")], selector=Single("front"), lead="front")
    result = await ask(process(Flow("flow", [Task("one", "Say hello", agents=[team])])), "go", context=direct("flow"))
    assert closings(result.events)["one"].result == "front: Your task 'one': Say hello"


async def test_an_agent_anywhere_in_the_tree_is_given_a_task_by_its_name(process: Process) -> None:
    """And none of its own children is: they are not asked."""
    flow = Flow("flow", [Task("one", "Say hello", agents=["far"])])
    far = echo("far", children=[echo("child")])

    @agent(children=[flow, far])
    def root() -> str:
        return "root"

    result = await ask(process(root), "go", context=direct("flow"))
    assert closings(result.events)["one"].by == "far"
    assert [event.author for event in result.events if event.text] == ["user", "far", "flow"]


async def test_an_agent_of_another_library_gets_one_task_at_a_time(process: Process) -> None:
    """It is told the request, its task, and what that builds on; its last word is the result, though it knows nothing of
    tasks.
    """
    remote = Remote("remote", "Let me see.", "42")
    tasks = [
        Task("one", "Count", agents=[remote], result=int),
        Task("two", "Count again", agents=[remote], result=int),
        Task("three", "Add", agents=[remote], depends_on=["one", "two"], result=int),
    ]
    result = await ask(process(Flow("flow", tasks)), "Count it all.", context=direct("flow"))
    assert turns(result.events) == [
        ("remote", "popcorn", ("one",)),
        ("remote", "popcorn", ("two",)),
        ("remote", "popcorn", ("three",)),
    ]
    assert {name: each.result for name, each in closings(result.events).items()} == {"one": 42, "two": 42, "three": 42}
    lines = remote.heard[2].splitlines()
    assert lines[:2] == ["The request: Count it all.", "Your task 'three': Add"]
    assert lines[-3:] == ["It builds on:", "- one: 42", "- two: 42"]


async def test_a_last_word_that_is_no_result_fails_the_task(process: Process) -> None:
    """D6: there is no model that could be told to try again."""
    tasks = [Task("one", agents=[Remote("remote", "many")], result=int)]
    result = await ask(process(Flow("flow", tasks)), "go", context=direct("flow"))
    assert (reason(result), statuses(result.events)) == ("failed", {"one": "failed"})


async def test_data_in_a_last_word_is_the_result(process: Process) -> None:
    data = Content(parts=(DataPart(data={"n": 1}),))
    tasks = [Task("one", agents=[Remote("remote", data)], result={"type": "object"})]
    result = await ask(process(Flow("flow", tasks)), "go", context=direct("flow"))
    assert closings(result.events)["one"].result == {"n": 1}


async def test_a_flow_is_a_task_of_another(process: Process) -> None:
    """D7: its agents see what it sees, and those of other tasks do not see them."""
    inside = ScriptedModel(["Deep inside.", done("i")])
    beside, after = ScriptedModel(done("b")), ScriptedModel(done("a"))
    inner = Flow("inner", [Task("one", "Inner work", agents=[LlmAgent("deep", model=inside)])])
    before = ScriptedModel(["Before all.", done("0")])
    tasks = [
        Task("zero", agents=[LlmAgent("before", model=before)]),
        Task("part", agents=[inner], depends_on=["zero"]),
        Task("beside", agents=[LlmAgent("beside", model=beside)]),
        Task("after", agents=[LlmAgent("after", model=after)], depends_on=["part"]),
    ]
    result = await ask(process(Flow("flow", tasks)), "go", context=direct("flow"))
    assert reason(result) == "completed"
    assert "Before all." in words(inside.requests[0])
    assert "Deep inside." not in words(beside.requests[0])
    assert "Deep inside." in words(after.requests[0])
    assert closings(result.events)["part"].result == "i"
    assert (ended(result.events, "inner")["reason"], ended(result.events)["reason"]) == ("complete", "complete")


async def test_a_flow_that_fails_is_a_task_that_failed(process: Process) -> None:
    """With the reason that the flow gave."""
    inner = Flow("inner", [Task("one", agents=[Remote("remote", "x")], result=int)])
    tasks = [Task("part", agents=[inner]), Task("rest", agents=[echo("b")])]
    result = await ask(process(Flow("flow", tasks)), "go", context=direct("flow"))
    assert statuses(result.events) == {"part": "failed", "rest": "successful"}
    assert "The flow 'inner' did not get done" in closings(result.events)["part"].reason


async def test_functions_are_tasks(process: Process) -> None:
    """D1: parameters are the results that it builds on, the request, and the context; the type is that of the return."""
    flow = Flow("flow")

    @flow.task
    def words_of(request: str) -> list[str]:
        """The words."""
        return request.split()

    @flow.task(depends_on=["words_of"])
    async def count(words_of: list[str], context: AgentContext) -> int:
        assert context.assignment is not None
        return len(words_of)

    @flow.task(depends_on=[count.task], result=["odd", "even"])
    def parity(count: int) -> int:
        return (count + 1) % 2

    @flow.task(depends_on=["parity"])
    def wrong(parity: str) -> int:
        return parity  # type: ignore[return-value]

    @flow.task(depends_on=["parity", "wrong"], run_if="always")
    def rest(parity: str, wrong: int | None) -> str:
        return f"{parity} {wrong}"

    result = await ask(process(flow), "one two three", context=direct("flow"))
    found = {name: each.result for name, each in closings(result.events).items()}
    assert found == {"words_of": ["one", "two", "three"], "count": 3, "parity": "odd", "wrong": None, "rest": "odd None"}
    assert statuses(result.events)["wrong"] == "failed"
    assert (reason(result), result.text.splitlines()[-1]) == ("completed", "odd None")
