"""Work side by side: results in order, a failure that stops the rest, a wait that stops nobody (behaviours A41, D13)."""

import asyncio

import pytest

from turnwise.ports.context import Suspend
from turnwise.tools.event_loop import run_together


async def gives(value: int, done: list[int], pauses: int = 0) -> int:
    for _ in range(pauses):
        await asyncio.sleep(0)
    done.append(value)
    return value


async def waits() -> int:
    raise Suspend


async def fails() -> int:
    await asyncio.sleep(0)
    raise ValueError("no")


async def test_results_come_in_order() -> None:
    done: list[int] = []
    assert await run_together([gives(1, done, 5), gives(2, done)]) == [1, 2]
    assert done == [2, 1]
    assert await run_together([]) == []


async def test_one_that_waits_stops_nobody() -> None:
    done: list[int] = []
    with pytest.raises(Suspend):
        await run_together([waits(), gives(2, done, 5)])
    assert done == [2]
    with pytest.raises(Suspend):
        await run_together([waits()])


async def test_one_that_fails_stops_the_others() -> None:
    done: list[int] = []
    with pytest.raises(ValueError, match="no"):
        await run_together([fails(), gives(2, done, 50)])
    assert done == []


async def test_who_is_cancelled_stops_all() -> None:
    done: list[int] = []
    going = asyncio.ensure_future(run_together([gives(1, done, 50), gives(2, done, 50)]))
    await asyncio.sleep(0)
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert done == []
