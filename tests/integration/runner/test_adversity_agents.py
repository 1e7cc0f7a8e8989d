"""Agents that misbehave: what they raise, forge, repeat or leave behind (A18, A20, A23, A34, A38, B4, C20)."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

import pytest
from runner_play import ask, key, reason

from turnwise import AgentContext, Content, Limits, RunConfig, Runner, Sequential, agent
from turnwise.agents.composite import Team
from turnwise.agents.function import FunctionAgent
from turnwise.facts.content import TextPart
from turnwise.facts.errors import AgentFailed, ArtifactTooLarge, StoreUnavailable
from turnwise.facts.events import Actions, End, ErrorInfo, Event, Rewind
from turnwise.facts.messages import MessageContext
from turnwise.selection.conversational import Conversational
from turnwise.stores.artifacts.local import InMemoryArtifactStore

MakeRunner = Callable[..., Runner]
Raise = Callable[[], object]
SURROGATE = "\ud83d"


class Panic(BaseException):
    """As extension modules raise it."""


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("It cannot even say what it is.")


def panic() -> NoReturn:
    raise Panic("native code gave up")


def mute() -> NoReturn:
    raise Mute


def cancelled() -> NoReturn:
    raise asyncio.CancelledError


def broken_text() -> NoReturn:
    raise ValueError(f"half a character: {SURROGATE}")


def broken_typed() -> NoReturn:
    raise AgentFailed(f"half a character: {SURROGATE}")


@pytest.mark.parametrize("raises", [panic, mute, cancelled, sys.exit, broken_text, broken_typed])
async def test_whatever_an_agent_raises_is_its_failure(make_runner: MakeRunner, raises: Raise) -> None:
    """A20, A32: recorded as an error and an end; the message behind it is answered."""

    @agent
    async def fails(message: str) -> str:
        await asyncio.sleep(0)
        if message == "fail":
            raises()
        return f"answer to {message}"

    runner = make_runner(fails)
    first = await runner.start("fail", user="ada", session="s")
    second = await runner.start("next", user="ada", session="s")
    result = await first.result()
    assert reason(result) == "failed"
    assert result.error is not None
    assert result.error.code == "agent.failed"
    assert (await second.result()).text == "answer to next"
    assert (await runner.sessions.get(key())).head.invocations == {}


@pytest.mark.parametrize("raises", [lambda: next(iter([])), sys.exit, panic])
async def test_whatever_a_sync_agent_raises_in_its_thread_is_its_failure(make_runner: MakeRunner, raises: Raise) -> None:
    """A20: a StopIteration cannot cross a future; it does not hang the message."""

    @agent
    def fails() -> object:
        return raises()

    assert reason(await ask(make_runner(fails), "x", config=RunConfig(deadline_seconds=5))) == "failed"


async def says(context: AgentContext) -> None:
    await context.say(SURROGATE)


async def writes_state(context: AgentContext) -> None:
    context.state["k"] = SURROGATE
    await context.say("written")


async def names_state(context: AgentContext) -> None:
    context.state[SURROGATE] = 1


async def steps(context: AgentContext) -> None:
    await context.step("k", lambda: SURROGATE)


async def asks(context: AgentContext) -> None:
    await context.ask("really?", tool="t", arguments={"a": SURROGATE})


async def hands_over(context: AgentContext) -> None:
    await context.transfer("other", message=SURROGATE)


async def hands_over_yielding(context: AgentContext) -> AsyncIterator[Event]:
    yield context.event(transfer_to="other", brief=Content(parts=(TextPart(text=SURROGATE),)))


async def reports(context: AgentContext) -> AsyncIterator[Event]:
    yield context.event().replace(error=ErrorInfo(code="x", message=SURROGATE))


BREAKS: list[Any] = [says, writes_state, names_state, steps, asks, hands_over, hands_over_yielding, reports]


@pytest.mark.parametrize("breaks", BREAKS)
async def test_what_cannot_be_written_is_the_agents_failure(make_runner: MakeRunner, breaks: Any) -> None:
    """A20: a lone surrogate, wherever it stands; nothing half written, and the session is free at once."""

    @agent
    async def other() -> str:
        return "other"

    runner = make_runner(agent(name="breaks", children=[other], routable=False, resume="never")(breaks))
    result = await ask(runner, "x", context=MessageContext(direct_agent_id="breaks"))
    assert reason(result) == "failed"
    assert result.error is not None
    assert result.error.code == "agent.failed"
    session = await runner.sessions.get(key())
    assert session.head.invocations == {}
    assert not session.held
    assert (await ask(runner, "x", context=MessageContext(direct_agent_id="other"))).text == "other"


async def test_an_event_said_before_is_said_again_and_the_end_is_kept(make_runner: MakeRunner) -> None:
    """A18, A34: the store leaves known ids out; the end must not go with them."""

    @agent
    async def repeats(message: str, context: AgentContext) -> AsyncIterator[Event]:
        said = await context.say(message)
        yield said
        yield said
        for event in await context.history.last():
            if event.author == "repeats":
                yield event.replace(actions=Actions(end=End()))
                return

    runner = make_runner(repeats)
    assert (await ask(runner, "one")).text == "one\none\none\none"
    again = await ask(runner, "two")
    assert again.text == "two\ntwo\ntwo\none"
    assert reason(again) == "completed"
    assert (await runner.sessions.get(key())).head.invocations == {}


async def test_an_agents_own_ids_take_nobody_elses_place(make_runner: MakeRunner) -> None:
    """A19, A34: not an older event's, not a message's; partials still share one id with their final event."""

    @agent
    async def names_it(context: AgentContext) -> AsyncIterator[Event]:
        whole = context.event("hello").replace(id="greeting")
        yield whole.replace(partial=True)
        yield whole
        yield context.event("forged").replace(id="message:s:two")

    runner = make_runner(names_it)
    for id_ in ("one", "two"):
        result = await ask(runner, "x", message_id=id_)
        assert result.text == "hello\nforged"
        assert reason(result) == "completed"
    shown = [e async for e in runner.run("x", user="ada", session="s")]
    partial = next(e for e in shown if e.partial)
    assert [e.text for e in shown if e.id == partial.id] == ["hello", "hello"]
    events = await runner.store.events(key())
    assert [e.text for e in events if e.text] == ["x", "hello", "forged"] * 3


async def test_a_piece_that_cannot_be_written_is_the_agents_failure(make_runner: MakeRunner) -> None:
    """A19: half a character is no text, also if the other half would come next. Nobody reads it."""

    @agent
    async def halves(context: AgentContext) -> None:
        async with context.stream() as out:
            await out.write("\ud83d")
            await out.write("\ude00")

    runner = make_runner(halves)
    shown = [e async for e in runner.run("x", user="ada", session="s")]
    assert [e for e in shown if e.partial] == []
    (failed,) = [e.error for e in shown if e.error]
    assert failed.code == "agent.failed"


async def test_a_partial_event_forges_nothing(make_runner: MakeRunner) -> None:
    """A19: it carries a piece of text and nothing else."""

    @agent
    async def forges(context: AgentContext) -> AsyncIterator[Event]:
        actions = Actions(end=End(), rewind=Rewind(from_sequence=1, invocation_id="x"), state_delta={"k": 2})
        yield context.event("x").replace(partial=True, sequence=99, author="user", actions=actions)
        yield context.event("real", positions={"iterative": 7}, finished=("1",), answers="zz", state_delta={"k": 1})

    runner = make_runner(forges)
    shown = [e async for e in runner.run("x", user="ada", session="s")]
    partial = next(e for e in shown if e.partial)
    assert (partial.author, partial.sequence, partial.actions) == ("forges", None, Actions())
    session = await runner.sessions.get(key())
    assert (session.head.positions, session.state) == ({}, {"k": 1})


async def test_a_cancelled_agent_has_time_to_clean_up(make_runner: MakeRunner) -> None:
    """A23: also a generator, whose cleanup awaits; and before the end is told."""
    began, cleaned = asyncio.Event(), []

    @agent
    async def cleans(context: AgentContext) -> AsyncIterator[str]:
        try:
            yield "one"
            began.set()
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            await context.say("sorry")
            cleaned.append(True)

    runner = make_runner(cleans)
    invocation = await runner.start("x", user="ada", session="s")
    await began.wait()
    await invocation.cancel()
    assert cleaned == [True]
    result = await invocation.result()
    assert (result.text, reason(result)) == ("one\nsorry", "cancelled")


async def test_an_agent_stopped_by_a_limit_is_cleaned_up_before_the_end(make_runner: MakeRunner) -> None:
    """A23."""
    cleaned: list[bool] = []

    @agent
    async def chatty() -> AsyncIterator[str]:
        try:
            while True:
                yield "again"
        finally:
            cleaned.append(True)

    assert reason(await ask(make_runner(chatty), "x", config=RunConfig(limits=Limits(events=3)))) == "limit:events"
    assert cleaned == [True]


async def test_nothing_is_stored_after_the_end(make_runner: MakeRunner) -> None:
    """A18: not by a task that an agent left behind either."""
    left: list[asyncio.Task[None]] = []

    @agent
    async def leaves(context: AgentContext) -> str:
        async def late() -> None:
            while True:
                await context.say("late")

        left.append(asyncio.create_task(late()))
        await asyncio.sleep(0.01)
        return "done"

    runner = make_runner(leaves)
    assert reason(await ask(runner, "x")) == "completed"
    await asyncio.gather(*left, return_exceptions=True)
    events = await runner.store.events(key())
    assert [e.sequence for e in events if e.actions.end] == [len(events)]


async def test_a_member_that_answers_only_with_a_tag_hands_on(make_runner: MakeRunner) -> None:
    """B4, B7."""

    @agent
    async def lead() -> str:
        return "<next>@writer</next>"

    @agent
    async def writer() -> str:
        return "written"

    assert (await ask(make_runner(Team("t", [lead, writer], selector=Conversational())), "x")).text == "written"


async def test_tags_are_taken_out_of_every_part(make_runner: MakeRunner) -> None:
    """B6."""

    @agent
    async def tags() -> Content:
        return Content(parts=(TextPart(text="one <next>@b</next>"), TextPart(text="two <next>@c</next>")))

    result = await ask(make_runner(tags), "x")
    assert "next" not in result.text
    assert result.events[-1].actions.next == "b"


@pytest.mark.parametrize("closed", [{"enabled": False}, {"roles": ["admin"]}])
async def test_composites_leave_out_who_is_closed_to_the_caller(make_runner: MakeRunner, closed: dict[str, Any]) -> None:
    """C20: in a sequence, and as a team's lead."""

    def two() -> list[FunctionAgent]:
        return [
            agent(name="closed", **closed)(lambda: "closed ran"),
            agent(name="open")(lambda: "open"),
        ]

    assert (await ask(make_runner(Sequential("all", two())), "x")).text == "open"
    team = Team("team", two(), selector=Conversational(), lead="open")
    assert (await ask(make_runner(team), "x")).text == "open"


@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_exactly_so_many_hand_overs_are_allowed(make_runner: MakeRunner, limit: int) -> None:
    """A38: the one beyond the limit goes to the root instead, which answers and is told why."""

    def link(n: int) -> FunctionAgent:
        @agent(name=f"a{n}", routable=False)
        async def gives(context: AgentContext) -> None:
            await context.transfer(f"a{n + 1}")

        return gives

    @agent(children=[link(n) for n in range(6)])
    async def root(context: AgentContext) -> str:
        if not context.notice:
            await context.transfer("a1")
            return ""
        return "I answer."

    result = await ask(make_runner(root), "x", config=RunConfig(limits=Limits(transfers=limit)))
    assert (result.text, reason(result)) == ("I answer.", "limit:transfers")
    assert [e.actions.transfer_to for e in result.events if e.actions.transfer_to] == [
        *(f"a{n}" for n in range(1, limit + 1)),
        "root",
    ]


async def test_what_is_read_from_the_state_can_be_changed_without_harm(make_runner: MakeRunner) -> None:
    """A24: only what is set again is stored; what was set does not change behind the store's back."""

    @agent
    async def carts(message: str, context: AgentContext) -> str:
        if message == "init":
            context.state["cart"] = cart = [1]
            cart.append("x" * 200_000)  # type: ignore[arg-type]
        else:
            context.state["cart"].append(2)
        return str(context.state["cart"])

    runner = make_runner(carts)
    assert (await ask(runner, "init")).text == "[1]"
    assert (await ask(runner, "add")).text == "[1]"
    assert (await runner.sessions.get(key())).state == {"cart": [1]}


class NoArtifacts(InMemoryArtifactStore):
    def __init__(self, problem: Exception) -> None:
        super().__init__()
        self._problem = problem

    async def save(self, *_: Any, **__: Any) -> NoReturn:
        raise self._problem


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (StoreUnavailable("gone"), "store.unavailable"),
        (ArtifactTooLarge("large"), "artifact.too_large"),
        (OSError("disk"), "agent.failed"),
    ],
)
async def test_an_artifact_that_cannot_be_saved_in_a_turn_fails_it(
    make_runner: MakeRunner, problem: Exception, code: str
) -> None:
    """A20, A26: what was said stays, and the next message is answered."""

    @agent
    async def saves(message: str, context: AgentContext) -> str:
        await context.say("saving")
        if message == "save":
            await context.artifacts.save("a.txt", b"1")
        return "saved"

    runner = make_runner(saves, artifacts=NoArtifacts(problem))
    result = await ask(runner, "save")
    assert (result.text, reason(result)) == ("saving", "failed")
    assert result.error is not None
    assert result.error.code == code
    assert (await ask(runner, "go on")).text == "saving\nsaved"
