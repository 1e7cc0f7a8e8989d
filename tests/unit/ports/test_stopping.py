"""What code raises itself, and what stops it from outside."""

import asyncio
from collections.abc import Awaitable, Callable, Generator

import pytest

from turnwise.ports.context import is_stopped

Work = Callable[[], Awaitable[object]]


class Forever:
    def __await__(self) -> Generator[None, None, None]:
        yield


async def waits() -> None:
    await Forever()


async def judged(work: Work, seen: list[bool]) -> None:
    task = asyncio.current_task()
    try:
        await work()
    except BaseException as error:
        seen.append(is_stopped(error, task))


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
async def test_what_the_code_raises_is_its_own(error: type[BaseException]) -> None:
    async def work() -> None:
        raise error

    seen: list[bool] = []
    await asyncio.create_task(judged(work, seen))
    assert seen == [False]


async def test_a_cancelled_task_is_stopped() -> None:
    seen: list[bool] = []
    task = asyncio.create_task(judged(asyncio.Event().wait, seen))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert seen == [True]


async def test_a_closed_coroutine_is_stopped() -> None:
    """As a loop's end finds it: its task is not the one that closes it."""
    seen: list[bool] = []
    coroutine = judged(waits, seen)

    async def begin() -> None:
        coroutine.send(None)

    await asyncio.create_task(begin())
    coroutine.close()
    assert seen == [True]


def test_without_a_task_nobody_stops_it() -> None:
    assert not is_stopped(GeneratorExit(), None)
    assert not is_stopped(asyncio.CancelledError(), None)
