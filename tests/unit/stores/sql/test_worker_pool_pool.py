import asyncio
import threading
from typing import Any

import pytest

from turnwise.facts.errors import StoreError, StoreUnavailable
from turnwise.stores.sql.errors import Database
from turnwise.stores.sql.worker_pool import Call, Deadlines, WorkerPool


def deadlines() -> Deadlines:
    return Deadlines(Database("the place", 60.0))


class Recorder:
    """A worker that notes what it was given, and waits for `go` at each."""

    def __init__(self, go: threading.Event | None = None) -> None:
        self.batches: list[int] = []
        self.threads: set[str] = set()
        self.closed = 0
        self._go = go

    def serve(self, calls: list[Call[Any]]) -> None:
        if self._go:
            self._go.wait(10)
        self.batches.append(len(calls))
        self.threads.add(threading.current_thread().name)
        for call in calls:
            call.result = call.job(None)  # type: ignore[arg-type]

    def close(self) -> None:
        self.closed += 1


async def test_a_batch_is_all_that_waits() -> None:
    go = threading.Event()
    worker = Recorder(go)
    pool = WorkerPool("test", lambda: worker, deadlines=deadlines(), batch=4)
    calls = [Call(lambda _, n=n: n) for n in range(10)]  # type: ignore[misc]
    pool.submit(calls[0])
    await asyncio.sleep(0.05)
    for call in calls[1:]:
        pool.submit(call)
    go.set()
    assert await asyncio.gather(*(call.future for call in calls)) == list(range(10))
    assert worker.batches == [1, 4, 4, 1]
    assert worker.threads == {"turnwise-test"}
    await pool.close()
    assert worker.closed == 1


async def test_threads_are_started_while_there_is_work_for_them() -> None:
    go = threading.Event()
    workers: list[Recorder] = []

    def hire() -> Recorder:
        workers.append(Recorder(go))
        return workers[-1]

    pool = WorkerPool("test", hire, deadlines=deadlines(), width=3)
    assert workers == []
    calls: list[Call[int]] = [Call(lambda _: 1) for _ in range(9)]
    for count, call in enumerate(calls, 1):
        pool.submit(call)
        assert len(workers) == min(count, 3)
    go.set()
    await asyncio.gather(*(call.future for call in calls))
    for _ in range(3):
        one: Call[int] = Call(lambda _: 1)
        pool.submit(one)
        await one.future
    assert len(workers) == 3
    await pool.close()
    assert [worker.closed for worker in workers] == [1, 1, 1]


async def test_close_waits_for_what_is_queued_and_takes_no_more() -> None:
    worker = Recorder()
    pool = WorkerPool("test", lambda: worker, deadlines=deadlines())
    calls: list[Call[int]] = [Call(lambda _: 1) for _ in range(5)]
    for call in calls:
        pool.submit(call)
    await pool.close()
    assert [call.future.done() for call in calls] == [True] * 5
    with pytest.raises(StoreError, match="was closed"):
        pool.submit(Call(lambda _: 1))
    await pool.close()
    assert worker.closed == 1


async def test_a_lane_that_was_never_used_closes() -> None:
    pool = WorkerPool("test", Recorder, deadlines=deadlines())
    await pool.close()


async def test_a_call_of_which_nobody_hears_is_an_error() -> None:
    go = threading.Event()
    pool = WorkerPool("test", lambda: Recorder(go), deadlines=Deadlines(Database("the place", 0.1)))
    call: Call[int] = Call(lambda _: 1)
    pool.submit(call)
    with pytest.raises(StoreUnavailable, match=r"the place was busy with other calls for 0\.1 seconds"):
        await call.future
    go.set()
    await pool.close()


async def test_close_does_not_wait_for_ever() -> None:
    go = threading.Event()
    pool = WorkerPool("test", lambda: Recorder(go), deadlines=Deadlines(Database("the place", 0.1)), grace=0.1)
    call: Call[int] = Call(lambda _: 1)
    pool.submit(call)
    await pool.close()
    assert isinstance(call.future.exception(), StoreUnavailable)
    go.set()
