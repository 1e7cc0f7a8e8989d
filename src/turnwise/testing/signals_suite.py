"""Conformance suite for `Signals`: test cases that a test calls.

    @pytest.mark.parametrize("case", signals_suite.CASES, ids=lambda case: case.__name__)
    def test_my_signals(case):
        asyncio.run(case(MySignals()))

Each case uses a new session, so all cases may share one object. The test closes it; `ENDINGS` close it themselves. A case fails
with AssertionError. `SHARED_CASES` take a function that opens several connected objects, like several processes, and close
them. They do not apply to signals that stay in one process.
"""

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from turnwise.facts.content import text_content
from turnwise.facts.events import Branch, Event
from turnwise.facts.sessions import SessionKey
from turnwise.ports.signals import Signals, Watch

Case = Callable[[Signals], Coroutine[Any, Any, None]]
SharedCase = Callable[[Callable[[], Signals]], Coroutine[Any, Any, None]]

PATIENCE = 20.0
"""Seconds after which a published signal counts as lost."""
NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def fresh_key() -> SessionKey:
    """A session of a new app."""
    return SessionKey(f"app-{uuid.uuid4().hex[:12]}", "user-1", "session-1")


def piece(text: str, offset: int = 0, *, id_: str = "event-1", author: str = "help") -> Event:
    """A partial event with that text, which starts `offset` characters into the answer."""
    return Event(
        id=id_,
        author=author,
        invocation_id="i-1",
        created_at=NOW,
        content=text_content(text),
        branch=Branch(f"1/{author}"),
        partial=True,
        offset=offset,
    )


async def heard(watch: Watch) -> Event | None:
    """Returns the next item of the watch, before the watch's own timeout."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await watch.next(10 * PATIENCE)
    except TimeoutError:
        raise AssertionError("Nothing was heard.") from None


async def nothing_heard(watch: Watch) -> None:
    """Checks that the watch has no more events. A pending change cannot be distinguished from a timeout."""
    assert await watch.next(0.0) is None


async def a_wait_ends_by_itself(signals: Signals) -> None:
    assert signals.poll_seconds > 0
    with signals.watch(fresh_key()) as watch:
        async with asyncio.timeout(PATIENCE):
            assert await watch.next(0.0) is None
            assert await watch.next(0.01) is None


async def publishing_to_nobody_is_nothing(signals: Signals) -> None:
    key = fresh_key()
    signals.changed(key)
    signals.partial(key, piece("he"))
    with signals.watch(key) as watch:
        signals.partial(key, piece("llo", 2))
        assert await heard(watch) == piece("llo", 2), "only what came since"


async def a_change_wakes_who_waits(signals: Signals) -> None:
    key = fresh_key()
    with signals.watch(key) as watch:
        waiting = asyncio.create_task(heard(watch))
        await asyncio.sleep(0)
        assert not waiting.done()
        signals.changed(key)
        assert await waiting is None


async def a_partial_wakes_who_waits(signals: Signals) -> None:
    key = fresh_key()
    with signals.watch(key) as watch:
        waiting = asyncio.create_task(heard(watch))
        await asyncio.sleep(0)
        signals.partial(key, piece("he"))
        assert await waiting == piece("he")


async def partials_and_changes_keep_their_order(signals: Signals) -> None:
    key = fresh_key()
    happened = [piece("a"), piece("b", 1), None, piece("c", id_="event-2"), None, piece("d", 1, id_="event-2"), None]
    with signals.watch(key) as watch:
        for item in happened:
            if item is None:
                signals.changed(key)
            else:
                signals.partial(key, item)
        assert [await heard(watch) for _ in happened] == happened
        await nothing_heard(watch)


async def changes_that_nobody_took_are_one(signals: Signals) -> None:
    key = fresh_key()
    with signals.watch(key) as watch:
        for _ in range(5):
            signals.changed(key)
        signals.partial(key, piece("a"))
        assert await heard(watch) is None
        assert await heard(watch) == piece("a")


async def a_watch_hears_of_its_session_only(signals: Signals) -> None:
    key = fresh_key()
    strangers = [key._replace(app="other"), key._replace(user="other"), key._replace(id="other"), fresh_key()]
    with signals.watch(key) as watch:
        for stranger in strangers:
            signals.changed(stranger)
            signals.partial(stranger, piece("theirs"))
        signals.partial(key, piece("ours"))
        assert await heard(watch) == piece("ours")


async def every_watch_hears_that_all_may_have_changed(signals: Signals) -> None:
    with signals.watch(fresh_key()) as one, signals.watch(fresh_key()) as two:
        signals.all_changed()
        for watch in (one, two):
            assert await heard(watch) is None


async def every_watch_hears_everything(signals: Signals) -> None:
    key = fresh_key()
    with signals.watch(key) as first, signals.watch(key) as second:
        signals.partial(key, piece("a"))
        signals.changed(key)
        for watch in (first, second):
            assert await heard(watch) == piece("a")
            assert await heard(watch) is None


async def a_watch_that_was_left_takes_none_with_it(signals: Signals) -> None:
    key = fresh_key()
    with signals.watch(key) as watch:
        with signals.watch(key) as short:
            pass
        signals.partial(key, piece("a"))
        assert await heard(watch) == piece("a")
        await nothing_heard(short)
    signals.partial(key, piece("b", 1))
    await nothing_heard(watch)


async def a_wait_that_was_cancelled_loses_nothing(signals: Signals) -> None:
    key = fresh_key()
    with signals.watch(key) as watch:
        waiting = asyncio.create_task(heard(watch))
        await asyncio.sleep(0)
        signals.partial(key, piece("a"))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        signals.partial(key, piece("b", 1))
        assert [await heard(watch), await heard(watch)] == [piece("a"), piece("b", 1)]


async def who_does_not_listen_holds_up_nobody(signals: Signals) -> None:
    """Old partials of a slow watcher may be dropped: in order, and replaced by a change."""
    key, count = fresh_key(), 5_000
    with signals.watch(key) as idle, signals.watch(key) as busy:
        for number in range(count):
            signals.partial(key, piece("x", number))
            if number < 10:
                assert await heard(busy) == piece("x", number)
        last, looked = -1, False
        while last < count - 1:
            item = await heard(idle)
            if item is None:
                looked = True
            else:
                assert item.offset is not None
                assert item.offset == last + 1 or (looked and item.offset > last)
                last, looked = item.offset, False


async def watches_of_other_event_loops_are_woken(signals: Signals) -> None:
    key = fresh_key()
    ready, home = asyncio.Event(), asyncio.get_running_loop()

    async def elsewhere() -> list[Event | None]:
        with signals.watch(key) as watch:
            home.call_soon_threadsafe(ready.set)
            items = [await heard(watch), await heard(watch)]
            signals.partial(key, piece("answer"))
            return items

    with signals.watch(key) as watch:
        there = asyncio.create_task(asyncio.to_thread(asyncio.run, elsewhere()))
        await ready.wait()
        signals.partial(key, piece("question"))
        signals.changed(key)
        assert await there == [piece("question"), None]
        assert [await heard(watch) for _ in range(3)] == [piece("question"), None, piece("answer")]


async def an_event_loop_that_was_closed_disturbs_nobody(signals: Signals) -> None:
    key = fresh_key()
    with signals.watch(key) as watch, signals.watch(key) as forgotten:
        waits: list[Coroutine[Any, Any, Event | None]] = []

        async def wait_and_vanish() -> None:
            waits.append(forgotten.next(10 * PATIENCE))
            waits[0].send(None)

        await asyncio.to_thread(asyncio.run, wait_and_vanish())
        signals.changed(key)
        signals.partial(key, piece("a"))
        assert [await heard(watch), await heard(watch)] == [None, piece("a")]
        waits[0].close()


async def closing_twice_is_closing_once(signals: Signals) -> None:
    key = fresh_key()
    with signals.watch(key) as watch:
        await signals.close()
        signals.changed(key)
        signals.partial(key, piece("a"))
        await watch.next(0.0)
        await signals.close()


CASES: tuple[Case, ...] = (
    a_wait_ends_by_itself,
    publishing_to_nobody_is_nothing,
    a_change_wakes_who_waits,
    a_partial_wakes_who_waits,
    partials_and_changes_keep_their_order,
    changes_that_nobody_took_are_one,
    a_watch_hears_of_its_session_only,
    every_watch_hears_that_all_may_have_changed,
    every_watch_hears_everything,
    a_watch_that_was_left_takes_none_with_it,
    a_wait_that_was_cancelled_loses_nothing,
    who_does_not_listen_holds_up_nobody,
    watches_of_other_event_loops_are_woken,
    an_event_loop_that_was_closed_disturbs_nobody,
)

ENDINGS: tuple[Case, ...] = (closing_twice_is_closing_once,)


async def a_change_reaches_others(open_: Callable[[], Signals]) -> None:
    key, here, there = fresh_key(), open_(), open_()
    with here.watch(key) as watch:
        for _ in range(3):
            there.changed(key)
            assert await heard(watch) is None
        there.all_changed()
        assert await heard(watch) is None
    await there.close()
    await here.close()


async def partials_reach_others_whole_or_not_at_all(open_: Callable[[], Signals]) -> None:
    """Several partials may be joined. Each has the right offset, and they arrive in order and before the next change."""
    key, here, there, text = fresh_key(), open_(), open_(), "".join(map(chr, range(0x3B1, 0x3C9))) * 50
    with here.watch(key) as watch:
        there.changed(key)
        # By now both are connected, as far as the implementation connects them.
        assert await heard(watch) is None
        for at in range(0, len(text), 7):
            there.partial(key, piece(text[at : at + 7], at))
        there.changed(key)
        place = 0
        while (item := await heard(watch)) is not None:
            assert item.offset is not None
            assert place <= item.offset
            assert item.text == text[item.offset : item.offset + len(item.text)]
            assert item == piece(item.text, item.offset)
            place = item.offset + len(item.text)
    await there.close()
    await here.close()


async def one_that_closes_leaves_the_others(open_: Callable[[], Signals]) -> None:
    key, here, there, gone = fresh_key(), open_(), open_(), open_()
    with here.watch(key) as watch:
        gone.changed(key)
        assert await heard(watch) is None
        await gone.close()
        there.changed(key)
        assert await heard(watch) is None
    await there.close()
    await here.close()


SHARED_CASES: tuple[SharedCase, ...] = (
    a_change_reaches_others,
    partials_reach_others_whole_or_not_at_all,
    one_that_closes_leaves_the_others,
)
