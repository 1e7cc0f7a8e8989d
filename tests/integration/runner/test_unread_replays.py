"""A replay of a large invocation is read from the store as fast as it is taken."""

import asyncio
from collections.abc import Callable

import pytest

from turnwise import AgentContext, Runner, agent
from turnwise.errors import SessionError
from turnwise.runner.queue import followers
from turnwise.runner.queue.followers import PAGE_BYTES

MakeRunner = Callable[..., Runner]
ANSWERS, SIZE = 20, 100_000


@agent
async def teller(context: AgentContext) -> str:
    """Says much."""
    for number in range(ANSWERS):
        await context.say(f"{number} " + "x" * SIZE)
    return "That is all."


async def test_a_replay_whose_reader_has_gone_reads_no_further(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J3: after a while it ends; whoever attaches again gets everything."""
    runner = make_runner(teller)
    told = await (await runner.start("tell", user="ann", session="s")).result()
    replay = await runner.attach(user="ann", session="s", invocation_id=told.invocation_id)
    reader = replay.events()
    await anext(reader)
    await reader.aclose()  # type: ignore[attr-defined]
    await asyncio.sleep(0.3)
    assert sum(len(event.text) for event in replay.feed.stored) <= 2 * PAGE_BYTES
    assert (await replay.result()).text == told.text
    monkeypatch.setattr(followers, "ABANDONED_SECONDS", 0.05)
    left = await runner.attach(user="ann", session="s", invocation_id=told.invocation_id)
    reader = left.events()
    await anext(reader)
    await reader.aclose()  # type: ignore[attr-defined]
    with pytest.raises(SessionError, match="Attach to the message again"):
        await left.feed.closed()
    again = await runner.attach(user="ann", session="s", invocation_id=told.invocation_id)
    assert len([event async for event in again.events()]) == len(told.events)


async def test_an_unread_replay_holds_a_page_and_a_read_one_is_whole(make_runner: MakeRunner) -> None:
    runner = make_runner(teller)
    first = await runner.start("tell", user="ann", session="s")
    told = await first.result()
    replay = await runner.attach(user="ann", session="s", invocation_id=told.invocation_id)
    reader = replay.events()
    await anext(reader)
    await asyncio.sleep(0.3)
    held = sum(len(event.text) for event in replay.feed.stored)
    assert held <= 2 * PAGE_BYTES < ANSWERS * SIZE
    rest = [event async for event in reader]
    assert len(rest) + 1 == len(told.events)
    again = await runner.attach(user="ann", session="s", invocation_id=told.invocation_id)
    unread = again.events()
    await anext(unread)
    assert (await again.result()).text == told.text
    await unread.aclose()  # type: ignore[attr-defined]
    late = await runner.attach(user="ann", session="s", invocation_id=told.invocation_id)
    last = told.events[-1].sequence or 0
    assert [event.sequence async for event in late.events(after=last - 1)] == [last]
