"""Conformance suite for `Dispatcher`: test cases that a test calls.

    @pytest.mark.parametrize("case", dispatcher_suite.CASES, ids=lambda case: case.__name__)
    async def test_my_dispatcher(case):
        await case(serving)

`serving` is a function that takes a `WorkOff` and returns an async context manager of a dispatcher that serves: while it is
entered, the dispatcher calls the `WorkOff` for announced sessions. Each case uses new sessions, so all cases may share one
engine. A case fails with AssertionError.
"""

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

from turnwise.facts.sessions import SessionKey
from turnwise.ports.dispatcher import Dispatcher, WorkOff

Serving = Callable[[WorkOff], AbstractAsyncContextManager[Dispatcher]]
Case = Callable[[Serving], Coroutine[Any, Any, None]]

APP = "app"
"""The app of all sessions."""
PATIENCE_SECONDS = 10.0
"""A call that has not come by then never comes."""
SOON = timedelta(milliseconds=400)


def fresh_key(user: str = "user-1") -> SessionKey:
    return SessionKey(APP, user, f"session-{uuid.uuid4().hex}")


class Calls:
    """A `WorkOff` that records its calls. While `hold` is clear, work does not end."""

    def __init__(self) -> None:
        self.begun: list[tuple[SessionKey, datetime]] = []
        self.ended: list[SessionKey] = []
        self.failures = 0
        """The number of calls that fail, the next ones first."""
        self.hold = asyncio.Event()
        self.hold.set()
        self._changed = asyncio.Condition()

    async def __call__(self, key: SessionKey, number: int) -> None:
        self.begun.append((key, datetime.now(UTC)))
        await self._notify()
        if self.failures:
            self.failures -= 1
            raise RuntimeError("This call fails.")
        await self.hold.wait()
        self.ended.append(key)
        await self._notify()

    def count(self, key: SessionKey) -> int:
        """Returns how often work on that session has begun."""
        return sum(begun == key for begun, _ in self.begun)

    async def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Waits until that is so."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS), self._changed:
                await self._changed.wait_for(is_so)
        except TimeoutError:
            raise AssertionError(f"It never came to this: {what}") from None

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


async def an_announced_session_is_worked_off(serving: Serving) -> None:
    calls = Calls()
    async with serving(calls) as dispatcher:
        assert dispatcher.works_here
        keys = [fresh_key(), fresh_key("ä/b c%2F@x.example"), fresh_key("..")]
        keys += [SessionKey(APP, "user-1", f"{uuid.uuid4().hex}{odd}") for odd in ("/", "?a=b#c", " ", "日本", "%")]
        for key in keys:
            dispatcher.announce(key, 1)
        await calls.until(lambda: set(keys) <= set(calls.ended), "each session is worked off under its own name")
    assert {key for key, _ in calls.begun} == set(keys)


async def what_is_announced_during_work_is_worked_off_after_it(serving: Serving) -> None:
    """Work that has begun may have read the inbox already."""
    calls, key = Calls(), fresh_key()
    calls.hold.clear()
    async with serving(calls) as dispatcher:
        dispatcher.announce(key, 1)
        await calls.until(lambda: calls.count(key) > 0, "the work begins")
        before = calls.count(key)
        dispatcher.announce(key, 2)
        # It may begin at once, beside the other one: work is idempotent.
        calls.hold.set()
        await calls.until(lambda: calls.count(key) > before, "it is worked off again")


async def announcements_do_not_pile_up(serving: Serving) -> None:
    """Pending work that is announced again stays one piece of work, when somebody else works on the session, too."""
    calls, key = Calls(), fresh_key()
    calls.hold.clear()
    async with serving(calls) as dispatcher:
        if dispatcher.is_local:
            return  # repeated work joins the running one, which is not the dispatcher's task
        dispatcher.announce(key, 1)
        await calls.until(lambda: calls.count(key) == 1, "the work begins")
        for number in (2, 2, 2, 0, 0, 0):
            dispatcher.announce(key, number)
            await asyncio.sleep(0.02)
        calls.hold.set()
        last = fresh_key()
        dispatcher.announce(last, 1)
        await calls.until(lambda: calls.count(last) == 1 and calls.count(key) >= 2, "all is worked off")
        assert calls.count(key) <= 3


async def sessions_are_worked_off_side_by_side(serving: Serving) -> None:
    calls, keys = Calls(), [fresh_key() for _ in range(5)]
    calls.hold.clear()
    async with serving(calls) as dispatcher:
        for key in keys:
            dispatcher.announce(key, 1)
        await calls.until(lambda: {key for key, _ in calls.begun} == set(keys), "all have begun before one has ended")
        calls.hold.set()
        await calls.until(lambda: set(calls.ended) == set(keys), "all have ended")


async def work_that_fails_can_be_announced_again(serving: Serving) -> None:
    calls, key, other = Calls(), fresh_key(), fresh_key()
    calls.failures = 1
    async with serving(calls) as dispatcher:
        dispatcher.announce(key, 1)
        await calls.until(lambda: calls.count(key) == 1, "the work begins")
        dispatcher.announce(other, 1)
        dispatcher.announce(key, 2)
        await calls.until(lambda: {key, other} <= set(calls.ended), "both are worked off after the failure")


async def a_session_is_called_at_a_time(serving: Serving) -> None:
    calls, key, past = Calls(), fresh_key(), fresh_key()
    async with serving(calls) as dispatcher:
        at = datetime.now(UTC) + SOON
        dispatcher.call_at(key, at)
        dispatcher.call_at(key, at)
        dispatcher.call_at(past, datetime.now(UTC) - timedelta(days=1))
        await calls.until(lambda: calls.count(past) == 1, "a time that is over is now")
        await calls.until(lambda: calls.count(key) >= 1, "the time comes")
    times = [when for called, when in calls.begun if called == key]
    # Clocks of two processes differ a little.
    assert len(times) == 1
    assert times[0] >= at - timedelta(milliseconds=50)


async def nothing_is_called_after_the_end(serving: Serving) -> None:
    calls, key = Calls(), fresh_key()
    async with serving(calls) as dispatcher:
        dispatcher.call_at(key, datetime.now(UTC) + SOON)
    await dispatcher.close()
    await asyncio.sleep(2 * SOON.total_seconds())
    assert calls.begun == []


CASES: tuple[Case, ...] = (
    an_announced_session_is_worked_off,
    what_is_announced_during_work_is_worked_off_after_it,
    announcements_do_not_pile_up,
    sessions_are_worked_off_side_by_side,
    work_that_fails_can_be_announced_again,
    a_session_is_called_at_a_time,
    nothing_is_called_after_the_end,
)
