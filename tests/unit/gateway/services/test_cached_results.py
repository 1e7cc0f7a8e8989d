"""Results that take long are made one at a time, also when their callers go away."""

import asyncio
import threading

import pytest

from turnwise.gateway.services.background import BackgroundTasks, CachedResults


class Work:
    """Work in a thread that ends when `go` is set."""

    def __init__(self) -> None:
        self.go, self.at_work, self.made = threading.Event(), threading.Semaphore(0), 0

    async def make(self) -> int:
        return await asyncio.to_thread(self._make)

    def _make(self) -> int:
        self.made += 1
        self.at_work.release()
        self.go.wait(30)
        return self.made


async def test_a_cancelled_caller_leaves_its_work_to_the_next_one() -> None:
    work, kept = Work(), CachedResults[int](BackgroundTasks())
    first = asyncio.create_task(kept.of("a", work.make))
    await asyncio.to_thread(work.at_work.acquire)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(kept.of("a", work.make))
    await asyncio.sleep(0)
    assert work.made == 1, "the second waits for the thread of the first"
    work.go.set()
    assert await second == 1


async def test_the_newest_results_are_kept_for_a_while() -> None:
    work = Work()
    work.go.set()
    kept = CachedResults[int](BackgroundTasks(), most=2)
    assert [await kept.of(name, work.make) for name in ("a", "a", "b", "a", "c", "b", "a")] == [1, 1, 2, 1, 3, 2, 4]
    passing = CachedResults[int](BackgroundTasks(), seconds=-1)
    assert [await passing.of("a", work.make) for _ in range(2)] == [5, 6]


async def test_a_failure_is_not_kept() -> None:
    async def fail() -> int:
        raise ValueError("no")

    work, kept = Work(), CachedResults[int](BackgroundTasks())
    work.go.set()
    with pytest.raises(ValueError, match="no"):
        await kept.of("a", fail)
    assert await kept.of("a", work.make) == 1
