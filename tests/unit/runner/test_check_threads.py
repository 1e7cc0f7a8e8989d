"""Checks in threads: bounded, given up in time, and counted while they hang (C13, J1)."""

import asyncio
import contextvars
import threading
import time

import pytest

from turnwise.runner.guardrails import CheckThreads

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")


def settle(threads: CheckThreads) -> None:
    """Waits until no thread is stuck."""
    while threads.stuck:
        time.sleep(0.001)


async def test_work_runs_beside_the_loop_with_its_context() -> None:
    NAME.set("ann")
    assert await CheckThreads().run(lambda: (NAME.get(), threading.current_thread().daemon)) == ("ann", True)


@pytest.mark.parametrize("problem", [ValueError, SystemExit, StopIteration, asyncio.CancelledError])
async def test_what_work_raises_is_raised(problem: type[BaseException]) -> None:
    """Also what a future could not carry. The thread goes on."""
    threads = CheckThreads(most=1)

    def fails() -> None:
        raise problem("no")

    async def run() -> object:
        try:
            await threads.run(fails)
        except BaseException as raised:
            return type(raised)
        return None

    assert await asyncio.wait_for(run(), 10) in {problem, RuntimeError}  # a coroutine raises no StopIteration
    assert await threads.run(lambda: 1) == 1


async def test_work_that_hangs_is_counted_until_it_ends() -> None:
    threads, begun, end = CheckThreads(most=1), threading.Event(), threading.Event()

    def hangs() -> None:
        begun.set()
        end.wait()

    task = asyncio.create_task(threads.run(hangs))
    await asyncio.to_thread(begun.wait)
    assert threads.stuck == 0
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), threads.stuck) == (True, 1)
    end.set()
    await asyncio.to_thread(settle, threads)
    assert await threads.run(lambda: "next") == "next"


async def test_no_more_threads_than_that_and_the_others_wait() -> None:
    threads, end = CheckThreads(most=2), threading.Event()
    used: set[int] = set()
    full = threading.Barrier(3)

    def first() -> None:
        used.add(threading.get_ident())
        full.wait()
        end.wait()

    both = [asyncio.create_task(threads.run(first)) for _ in range(2)]
    await asyncio.to_thread(full.wait)
    others = [asyncio.create_task(threads.run(lambda: used.add(threading.get_ident()))) for _ in range(20)]
    await asyncio.sleep(0)
    assert not any(other.done() for other in others)
    end.set()
    await asyncio.gather(*both, *others)
    assert len(used) == 2


async def test_work_that_nobody_waits_for_any_more_is_not_begun() -> None:
    threads, begun, end = CheckThreads(most=1), threading.Event(), threading.Event()
    made: list[int] = []

    def hangs() -> None:
        begun.set()
        end.wait()

    first = asyncio.create_task(threads.run(hangs))
    await asyncio.to_thread(begun.wait)
    second = asyncio.create_task(threads.run(lambda: made.append(1)))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    assert threads.stuck == 0
    end.set()
    await first
    await threads.run(lambda: made.append(2))
    assert made == [2]
