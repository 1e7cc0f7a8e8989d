import asyncio
import gc
import signal
import threading

import pytest

from turnwise.facts.errors import ConfigError
from turnwise.runner.blocking_portal import BlockingPortal


def test_what_is_run_gives_its_result_or_raises() -> None:
    async def work(number: int) -> float:
        return 6 / number

    door = BlockingPortal("Use await.")
    assert door.run(work(2)) == 3
    with pytest.raises(ZeroDivisionError):
        door.run(work(0))


def test_what_still_runs_when_the_door_goes_is_cancelled_and_cleans_up() -> None:
    seen: list[object] = []

    async def hold() -> None:
        task = asyncio.current_task()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            seen.append(asyncio.current_task() is task)

    held: list[asyncio.Task[None]] = []

    async def begin() -> None:
        held.append(asyncio.create_task(hold()))
        await asyncio.sleep(0)

    door = BlockingPortal("Use await.")
    door.run(begin())
    del door
    gc.collect()
    assert seen == [True]


async def test_a_door_may_go_inside_another_loop() -> None:
    async def held() -> None:
        await asyncio.Event().wait()

    async def begin() -> "asyncio.Task[None]":
        return asyncio.create_task(held())

    doors, tasks = [BlockingPortal("Use await.")], []
    thread = threading.Thread(target=lambda: tasks.append(doors[0].run(begin())))
    thread.start()
    thread.join()
    doors.clear()
    gc.collect()
    assert tasks[0].cancelled()


def test_an_interrupt_cancels_the_work_which_may_clean_up_with_await() -> None:
    begun, cleaned = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.set()

    def interrupt() -> None:
        begun.wait(30)
        assert main.ident is not None
        signal.pthread_kill(main.ident, signal.SIGINT)

    main, door = threading.current_thread(), BlockingPortal("Use await.")
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        door.run(work())
    interrupting.join()
    assert cleaned.wait(30)


async def test_inside_a_loop_it_says_what_to_write_and_runs_nothing() -> None:
    ran: list[int] = []

    async def work() -> None:
        ran.append(1)

    with pytest.raises(ConfigError, match=r"inside an event loop.*Use await"):
        BlockingPortal("Use await.").run(work())
    assert ran == []
