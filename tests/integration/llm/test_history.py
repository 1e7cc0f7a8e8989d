"""What a model is sent from turn to turn: kept in the process, right after every change, and steady for providers' caches."""

import json
import sqlite3
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from runner_fixtures import MakeRunner as Process
from runner_play import ask, key

from turnwise import LlmAgent, Runner, SqlSessionStore
from turnwise.facts.limits import Limits, RunConfig
from turnwise.ports.model import ModelRequest
from turnwise.ports.stores import SessionStore
from turnwise.testing.models import FunctionModel, ScriptedModel, calls
from turnwise.tools.built_in import ask_user
from turnwise.transcript.view import Budget

Requests = list[ModelRequest]


def to(agent: str) -> Any:
    return calls("transfer_to_agent", {"agent": agent})


def copied(folder: Path, name: str) -> Path:
    """A folder with a copy of the database, so that a runner over it has read nothing of it before."""
    other = folder / name
    other.mkdir()
    with sqlite3.connect(folder / "s.db") as source, sqlite3.connect(other / "s.db") as target:
        source.backup(target)
    source.close()
    target.close()
    return other


def desk(seen: Requests, *, budget: Budget, archive: bool = True) -> LlmAgent:
    """A front that hands over on request, and a colleague who hands back; an archive that may be disabled."""

    def front(request: ModelRequest) -> Any:
        seen.append(request)
        said = request.messages[-1].text
        if "bill" in said and "by=" not in said and not request.messages[-1].tool_results:
            return to("billing")
        if "remember" in said and not request.messages[-1].tool_results:
            return calls("ask_user", {"question": "What?"})
        return f"Front has heard {len(said)} characters of it. " + "Well. " * 12

    def billing(request: ModelRequest) -> Any:
        said = request.messages[-1].text
        return to("front") if "thanks" in said and not request.messages[-1].tool_results else "Billing knows. " * 6

    below = [
        LlmAgent("billing", model=FunctionModel(billing), description="Knows bills.", history=budget),
        LlmAgent("archive", model=FunctionModel(billing), description="Knows the past.", enabled=archive, history=budget),
    ]
    return LlmAgent(
        "front",
        model=FunctionModel(front),
        instructions="Be kind.",
        turn_instructions="{mood?}",
        children=below,
        tools=[ask_user],
        history=budget,
    )


BUDGETS = [Budget(24_000, 200), Budget(1_400, 200), Budget(24_000, 14)]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_what_a_process_has_kept_reads_as_what_another_reads_from_nothing(
    tmp_path: Path, process: Process, seed: int, budget: Budget
) -> None:
    """With rewinds, forks, transfers, questions and other users' sessions, turn after turn."""
    chance, warm, seen = Random(seed), Requests(), Requests()
    runner = process(desk(warm, budget=budget), policy="adk")
    await ask(runner, "hello")
    invocations: list[str] = []
    sessions = ["s"]
    compared = 0
    for number in range(24):
        session = chance.choice(sessions)
        match chance.randint(0, 9):
            case 0 if invocations and session == "s":
                await runner.sessions.rewind(key(), invocations.pop())
            case 1 if invocations and len(sessions) < 3:
                sessions.append(f"fork{number}")
                await runner.sessions.fork(key(), sessions[-1])
            case 2:
                await (await runner.start(f"Mine is {number}.", user="bob", session=session)).result()
        text = f"{number}: " + chance.choice(["hello", "a bill", "thanks", "remember", "and", "more " * 40])
        seen.clear()
        store = SqlSessionStore(f"sqlite:///{copied(tmp_path, str(number))}/s.db")
        cold = Runner(desk(seen, budget=budget), store=store, policy="adk")
        expected = await ask(cold, text, session)
        await cold.close()
        before = len(warm)
        result = await ask(runner, text, session)
        if session == "s":
            invocations.append(result.invocation_id)
        assert result.text == expected.text
        assert warm[before : before + 1] == seen[:1]
        compared += bool(seen)
        assert "Mine is" not in str(warm[before:])
    assert compared >= 10


async def test_a_turn_reads_only_what_is_new(process: Process) -> None:
    """In a process that has answered the session before."""
    reads: list[int] = []

    class Counting:
        def __init__(self, inner: SessionStore) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        async def events(self, *arguments: Any, **options: Any) -> Any:
            events = await self._inner.events(*arguments, **options)
            reads.append(len(events))
            return events

    clerk = LlmAgent("clerk", model=FunctionModel(lambda _: "Yes."))
    runner = process(clerk, store=Counting(process(clerk).store))
    for number in range(30):
        await ask(runner, f"message {number}")
    reads.clear()
    await ask(runner, "the last")
    assert sum(reads) <= 4


async def test_a_turn_after_a_rewind_shows_nothing_of_it(process: Process) -> None:
    """Nor does one whose session was deleted and made again."""
    model = ScriptedModel(*(f"answer {number}" for number in range(5)))
    runner = process(LlmAgent("clerk", model=model))
    await ask(runner, "one")
    second = await ask(runner, "two")
    await ask(runner, "three")
    await runner.sessions.rewind(key(), second.invocation_id)
    await ask(runner, "four")
    assert [message.text for message in model.requests[-1].messages] == ["one", "answer 0", "four"]
    await runner.sessions.delete(key())
    await ask(runner, "five")
    assert [message.text for message in model.requests[-1].messages] == ["five"]


async def test_what_a_second_process_answered_is_read_by_the_first(process: Process) -> None:
    model = ScriptedModel("a", "c")
    first = process(LlmAgent("clerk", model=model))
    second = process(LlmAgent("clerk", model=ScriptedModel("b")))
    await ask(first, "one")
    await ask(second, "two")
    await ask(first, "three")
    assert [message.text for message in model.requests[-1].messages] == ["one", "a", "two", "b", "three"]


@pytest.mark.parametrize("most", [6, 7])
async def test_no_more_than_history_events_is_shown_however_it_was_read(process: Process, most: int) -> None:
    config = RunConfig(limits=Limits(history_events=most))
    seen: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        seen.append(request)
        return "Yes."

    warm = process(LlmAgent("clerk", model=FunctionModel(answer)), config=config)
    for number in range(12):
        await ask(warm, f"message {number}")
        assert sum(len(message.parts) for message in seen[-1].messages) <= most
    await ask(warm, "the last")
    assert len(seen[-1].messages) >= 3


def sent(request: ModelRequest) -> str:
    """The request as a provider's cache reads it: tools, instructions, messages."""
    tools = [[spec.name, spec.description, dict(spec.parameters)] for spec in request.tools]
    messages = [message.model_dump(mode="json") for message in request.messages]
    return json.dumps([tools, request.instructions, messages])


def shared(one: str, other: str) -> float:
    """The common beginning of two texts, as a share of the shorter one."""
    shorter = min(len(one), len(other))
    return next((place for place in range(shorter) if one[place] != other[place]), shorter) / shorter


async def test_a_long_conversation_keeps_the_beginning_of_its_requests(process: Process) -> None:
    """Over the budget, with a transfer and back, with an agent that is disabled for a while, and in three processes."""
    seen: Requests = []
    budget = Budget(3_000, 1_000)
    runner = process(desk(seen, budget=budget), policy="adk")
    for number in range(60):
        await ask(runner, f"{number}: a question with some words in it")
    assert len(seen[-1].messages) < 110, "it is over the budget"
    requests: Requests = []
    for number in range(20):
        if number in (10, 15):
            runner = process(desk(seen, budget=budget, archive=number == 15), policy="adk")
        text = {5: "a bill, please", 6: "thanks"}.get(number, "a question with some words in it")
        before = len(seen)
        result = await ask(runner, f"{number}: {text}")
        assert result.end is not None
        requests.append(seen[before])
    texts = [sent(request) for request in requests]
    steady = [shared(one, other) for one, other in pairwise(texts)]
    assert len(steady) == 19
    assert sum(share >= 0.9 for share in steady) >= 15, steady
    told = [str(request.messages).count("Not available now: archive.") for request in requests]
    assert told[9:12] == [0, 1, 1]
    assert [str(request.messages).count("no longer apply") for request in requests][14:17] == [0, 1, 1]


async def test_an_agent_that_is_not_available_is_offered_and_refused(process: Process) -> None:
    """A35: the tool stays as it is, so the request's beginning does."""
    model = ScriptedModel(to("archive"), "I try myself.")
    archive = LlmAgent("archive", model=ScriptedModel(), description="Knows the past.", enabled=False)
    front = LlmAgent("front", model=model, children=[archive])
    assert (await ask(process(front, policy="adk"), "what was?")).text == "I try myself."
    (tool,) = model.requests[0].tools
    assert "archive" in tool.description
    (result,) = model.requests[1].messages[-1].tool_results
    assert (result.failed, "not available now" in str(result.result)) == (True, True)


async def test_what_changes_from_turn_to_turn_comes_last_and_is_said_once(process: Process) -> None:
    """The state in turn instructions is recorded with the answer, and repeated only when it has changed."""
    model = ScriptedModel("a", "b", "c", "d")
    days = iter(["Monday", "Monday", "Tuesday", ""])
    clerk = LlmAgent("clerk", model=model, instructions="Be kind.", turn_instructions=lambda _: next(days))
    runner = process(clerk)
    for text in ("one", "two", "three", "four"):
        await ask(runner, text)
    assert {request.instructions.partition("\n")[0] for request in model.requests} == {"Be kind."}
    last = model.requests[-1].messages
    assert [message.text for message in last] == [
        'one\n<said note="now">Monday</said>',
        "a",
        "two",
        "b",
        'three\n<said note="now">Tuesday</said>',
        "c",
        'four\n<said note="now">The notes before this one no longer apply.</said>',
    ]
    events = await runner.store.events(key())
    assert [event.actions.note for event in events if event.author == "clerk"][:3] == ["Monday", None, "Tuesday"]
