"""State that comes from outside: with a message, or without one (behaviours A18, A24, A44)."""

import asyncio

import pytest
from runner_fixtures import MakeRunner
from runner_play import ask, key, texts

from turnwise import AgentContext, agent
from turnwise.facts.errors import MessageError, MessageTooLarge, SessionBusy, SessionMissing
from turnwise.facts.messages import MessageContext


def bringing(**state: object) -> MessageContext:
    return MessageContext(state=state)  # type: ignore[arg-type]


@agent
async def reader(context: AgentContext) -> str:
    return str({name: context.state.get(name) for name in ("a", "user:b") if name in context.state})


async def test_the_answer_reads_what_its_message_brought(make_runner: MakeRunner) -> None:
    runner = make_runner(reader)
    assert (await ask(runner, "x", context=MessageContext(state={"a": 1, "user:b": [2]}))).text == "{'a': 1, 'user:b': [2]}"
    assert (await ask(runner, "x", context=bringing(a=None))).text == "{'user:b': [2]}"
    assert (await ask(runner, "x", session="other")).text == "{'user:b': [2]}"
    (first, *_) = await runner.store.events(key())
    assert first.actions.state_delta == {"a": 1, "user:b": [2]}
    await runner.sessions.rewind(key(), first.invocation_id)
    assert (await runner.sessions.get(key())).merged_state == {"user:b": [2]}


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ({"temp:a": 1}, MessageError),
        ({"": 1}, MessageError),
        ({"a": "\ud800"}, MessageError),
        ({"a": "x" * 70_000}, MessageTooLarge),
    ],
)
async def test_a_message_with_what_cannot_be_kept_is_refused(
    make_runner: MakeRunner, state: dict[str, object], error: type[MessageError]
) -> None:
    runner = make_runner(reader)
    with pytest.raises(error):
        await ask(runner, "x", context=bringing(**state))
    with pytest.raises(SessionMissing):
        await runner.sessions.get(key())


async def test_a_turn_that_is_taken_up_reads_what_it_read_before(make_runner: MakeRunner) -> None:
    """What the reply brings is there behind the question, and not before it: else the turn would come to another one."""

    @agent
    async def asks(context: AgentContext) -> str:
        before = context.state.get("a")
        await context.ask(f"With {before}?")
        return f"{before}, then {context.state.get('a')}"

    runner = make_runner(asks)
    await ask(runner, "x", context=bringing(a="old"))
    assert (await ask(runner, "yes", context=bringing(a="new"))).text == "old, then new"


async def test_it_is_kept_with_a_message_that_waits_in_line(make_runner: MakeRunner) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    @agent
    async def slow(context: AgentContext) -> str:
        began.set()
        await go.wait()
        return str(context.state.get("a"))

    runner = make_runner(slow)
    first = await runner.start("one", user="ada", session="s", context=bringing(a=1))
    await began.wait()
    second = await runner.start("two", user="ada", session="s", context=bringing(a=2))
    with pytest.raises(SessionBusy):
        await runner.sessions.write_state(key(), {"a": 3})
    go.set()
    assert ((await first.result()).text, (await second.result()).text) == ("1", "2")


async def test_state_is_written_without_a_message(make_runner: MakeRunner) -> None:
    runner = make_runner(reader)
    with pytest.raises(SessionMissing):
        await runner.sessions.write_state(key(), {"a": 1})
    await ask(runner, "x")
    before = (await runner.sessions.get(key())).head
    session = await runner.sessions.write_state(key(), {"a": 1, "user:b": 2})
    assert session.merged_state == {"a": 1, "user:b": 2}
    assert session.head == before
    assert (await runner.sessions.write_state(key(), {})).last_sequence == session.last_sequence
    with pytest.raises(MessageError):
        await runner.sessions.write_state(key(), {"temp:x": 1})
    assert (await ask(runner, "x")).text == "{'a': 1, 'user:b': 2}"
    assert await texts(runner) == ["x", "{}", "x", "{'a': 1, 'user:b': 2}"]
