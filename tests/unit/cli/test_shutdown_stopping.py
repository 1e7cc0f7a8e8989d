"""How a process that answers messages stops. (With real processes: tests/integration/gateway/test_stop.py.)"""

import asyncio
import logging
from datetime import UTC, datetime

import pytest

from turnwise.cli.shutdown import RunningAnswers, stop_gracefully
from turnwise.facts.content import text_content
from turnwise.facts.events import USER, Actions, Event, Rewind
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey

KEY = SessionKey("shop", "ann", "s1")
ASKED = Selection(
    agent="orders", method="m", confidence=1.0, reason="r", policy="p", fingerprint="f", tree_version="t", verdicts=(), ms=0.0
)
AGAIN = Actions(rewind=Rewind(from_sequence=2, invocation_id="i1"))


def event(author: str, actions: Actions, attempt: int = 1) -> Event:
    return Event(
        id="e",
        author=author,
        invocation_id="i1",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        content=text_content("hello"),
        actions=actions,
        attempt=attempt,
    )


class Told:
    """Who is told, while so many answers are being given."""

    def __init__(self, running: int) -> None:
        self.running = running
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


async def looking() -> "asyncio.Task[None]":
    """A look for what others left, which goes on for ever."""

    async def look() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(look())
    await asyncio.sleep(0)
    return task


async def test_nothing_is_said_when_there_is_nothing_to_do() -> None:
    told, closed = Told(0), asyncio.Event()

    async def close() -> None:
        closed.set()

    look = await looking()
    assert await stop_gracefully(told, look, close(), grace=60, lease_seconds=30)
    assert closed.is_set()
    assert look.cancelled()
    assert told.said == []


@pytest.mark.parametrize(("running", "words"), [(1, "1 answer is being given"), (3, "3 answers are being given")])
async def test_what_is_being_answered_may_come_to_its_end(running: int, words: str) -> None:
    told = Told(running)

    async def close() -> None:
        told.running = 0

    assert await stop_gracefully(told, await looking(), close(), grace=60, lease_seconds=30)
    assert told.said == [f"stopping: {words}, for 60 s at most; Ctrl-C again exits at once"]


async def test_what_takes_longer_is_left_to_others() -> None:
    told = Told(2)

    async def close() -> None:
        await asyncio.Event().wait()

    assert not await stop_gracefully(told, await looking(), close(), grace=0, lease_seconds=30)
    assert told.said[1:] == ["stopped with 2 unfinished; another process takes it up in 30 s"]
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def test_what_goes_wrong_while_it_closes_is_raised() -> None:
    async def close() -> None:
        raise ValueError("as asked")

    with pytest.raises(ValueError, match="as asked"):
        await stop_gracefully(Told(0), await looking(), close(), grace=60, lease_seconds=30)


async def test_answers_are_counted_from_their_begin_to_their_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "turnwise")
    answering = RunningAnswers()
    await answering.selected(KEY, ASKED)
    await answering.stored(KEY, event(USER, Actions()))
    assert answering.running == 0
    await answering.stored(KEY, event(USER, Actions(selection=ASKED)))
    await answering.stored(KEY, event("orders", Actions()))
    assert (answering.running, caplog.records) == (1, [])
    await answering.stored(KEY, event("orders", AGAIN, attempt=2))
    assert [record.getMessage() for record in caplog.records] == [
        "Attempt 2 of an answer whose process stopped before its end."
    ]
    assert answering.running == 1
    await answering.ended(KEY, "i1", "completed")
    assert answering.running == 0
