import asyncio
import gc
import itertools
import time
import weakref

import pytest

from turnwise.facts.errors import StoreUnavailable
from turnwise.stores.sql.errors import Database
from turnwise.stores.sql.worker_pool import FIRST_PAUSE, LATE_SECONDS, LONGEST_PAUSE, Call, Deadlines, backoff, deliver


def fail(_connection: object) -> int:
    raise KeyError("x")


async def test_results_and_errors_come_back() -> None:
    good: Call[int] = Call(lambda _: 3)
    bad: Call[int] = Call(fail)
    assert good.run(None)  # type: ignore[arg-type]
    assert not bad.run(None)  # type: ignore[arg-type]
    deliver([good, bad])
    assert await good.future == 3
    with pytest.raises(KeyError):
        await bad.future


async def test_a_second_run_forgets_the_first() -> None:
    runs = []

    def fail_once(connection: object) -> int:
        runs.append(connection)
        return fail(connection) if len(runs) == 1 else 4

    call: Call[int] = Call(fail_once)
    assert not call.run(None)  # type: ignore[arg-type]
    assert call.run(None)  # type: ignore[arg-type]
    deliver([call])
    assert await call.future == 4


async def test_a_waiter_that_was_cancelled_is_left_alone() -> None:
    call: Call[int] = Call(lambda _: 3)
    call.future.cancel()
    call.run(None)  # type: ignore[arg-type]
    deliver([call])
    await asyncio.sleep(0)
    assert call.future.cancelled()


def test_a_loop_that_was_closed_is_left_alone() -> None:
    async def make() -> Call[int]:
        return Call(lambda _: 3)

    call = asyncio.run(make())
    call.run(None)  # type: ignore[arg-type]
    deliver([call])


async def test_a_call_that_nobody_began_expires_and_is_not_begun() -> None:
    call: Call[int] = Call(lambda _: 3)
    call.expire(Database("the place", 15.0))
    with pytest.raises(StoreUnavailable, match="was busy with other calls"):
        await call.future
    assert not call.begin()
    assert not call.begin_commit()
    deliver([call])
    await asyncio.sleep(0)
    assert isinstance(call.future.exception(), StoreUnavailable), "a late result changes nothing"


async def test_a_call_that_runs_expires_and_is_not_committed() -> None:
    cuts: list[str] = []
    call: Call[int] = Call(lambda _: 3, repeatable=False)
    assert call.begin(lambda: cuts.append("cut"))
    call.expire(Database("the place", 15.0))
    assert cuts == ["cut"]
    assert not call.begin_commit()
    with pytest.raises(StoreUnavailable) as caught:
        await call.future
    assert "not known" not in str(caught.value)


@pytest.mark.parametrize("repeatable", [True, False])
@pytest.mark.parametrize("stage", ["running", "committing", "after a lost commit"])
@pytest.mark.parametrize("reads", [True, False])
async def test_the_error_says_when_a_call_may_have_been_stored(repeatable: bool, stage: str, reads: bool) -> None:
    call: Call[int] = Call(lambda _: 3, reads=reads, repeatable=repeatable)
    assert call.begin()
    if stage != "running":
        assert call.begin_commit()
    if stage == "after a lost commit":
        call.maybe_stored = True
        assert call.begin()
    call.expire(Database("the place", 15.0))
    with pytest.raises(StoreUnavailable) as caught:
        await call.future
    assert ("not known whether this call was stored" in str(caught.value)) is (stage != "running" and not reads)


async def test_a_call_that_ended_does_not_expire() -> None:
    cuts: list[str] = []
    call: Call[int] = Call(lambda _: 3)
    call.begin(lambda: cuts.append("cut"))
    call.run(None)  # type: ignore[arg-type]
    deliver([call])
    call.expire(Database("the place", 15.0))
    assert await call.future == 3
    assert cuts == []


async def test_an_expired_call_says_why_it_was_tried_again() -> None:
    call: Call[int] = Call(lambda _: 3)
    call.begin()
    call.trouble = StoreUnavailable("The line is dead.", fix="Mend it.")
    call.expire(Database("the place", 15.0))
    with pytest.raises(StoreUnavailable, match=r"The line is dead\. It stayed so for 15 seconds\. Mend it\."):
        await call.future


async def test_a_watch_ends_calls_in_time_and_only_those() -> None:
    watch = Deadlines(Database("the place", 0.2))
    first, second, third = (Call[int](lambda _: 3) for _ in range(3))
    watch.add(first)
    watch.add(second)
    second.run(None)  # type: ignore[arg-type]
    deliver([second])
    await asyncio.sleep(0.1)
    watch.add(third)
    with pytest.raises(StoreUnavailable):
        await first.future
    assert await second.future == 3
    assert not third.future.done()
    with pytest.raises(StoreUnavailable):
        await third.future


async def test_a_watch_goes_on_after_a_rest() -> None:
    watch = Deadlines(Database("the place", 0.05))
    for _ in range(3):
        done: Call[int] = Call(lambda _: 3)
        watch.add(done)
        deliver([done])
        await done.future
        await asyncio.sleep(0.1)
        hung: Call[int] = Call(lambda _: 3)
        watch.add(hung)
        with pytest.raises(StoreUnavailable):
            await hung.future


async def test_a_loop_that_stood_still_blames_nobody() -> None:
    watch = Deadlines(Database("the place", 0.2))
    call: Call[int] = Call(lambda _: 3)
    watch.add(call)
    time.sleep(0.3 + LATE_SECONDS)  # noqa: ASYNC251
    await asyncio.sleep(0.01)
    assert not call.future.done(), "it has all its time again"
    with pytest.raises(StoreUnavailable):
        await call.future


def test_a_watch_forgets_the_calls_of_a_closed_loop() -> None:
    watch = Deadlines(Database("the place", 60.0))

    async def make() -> "weakref.ref[asyncio.AbstractEventLoop]":
        watch.add(Call(lambda _: 3))
        return weakref.ref(asyncio.get_running_loop())

    loops = [asyncio.run(make()) for _ in range(3)]
    gc.collect()
    assert [loop() is None for loop in loops] == [True, True, False]


def test_pauses_grow_up_to_a_limit() -> None:
    found = list(itertools.islice(backoff(), 20))
    assert found[0] <= FIRST_PAUSE
    assert found[5] > FIRST_PAUSE
    assert min(found[10:]) >= LONGEST_PAUSE / 2
    assert max(found) <= LONGEST_PAUSE
    assert found != list(itertools.islice(backoff(), 20)), "so that not all come back at once"
