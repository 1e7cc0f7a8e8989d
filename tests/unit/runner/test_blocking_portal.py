import asyncio
import gc
import subprocess
import sys
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


INTERRUPTED = """
import asyncio, os, signal, threading
from turnwise.runner.blocking_portal import BlockingPortal

begun = threading.Event()

async def work():
    begun.set()
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.01)
        print("cleaned", flush=True)
        cleaned.set()

def interrupt():
    begun.wait()
    os.kill(os.getpid(), signal.SIGINT)

cleaned = threading.Event()
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt).start()
try:
    BlockingPortal("Use await.").run(work())
except KeyboardInterrupt:
    cleaned.wait()
    print("interrupted")
"""


def test_an_interrupt_cancels_the_work_which_may_clean_up_with_await() -> None:
    """In a process of its own: the signal may not reach whatever runs the tests."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout.split(), done.stderr) == (["cleaned", "interrupted"], "")


async def test_inside_a_loop_it_says_what_to_write_and_runs_nothing() -> None:
    ran: list[int] = []

    async def work() -> None:
        ran.append(1)

    with pytest.raises(ConfigError, match=r"inside an event loop.*Use await"):
        BlockingPortal("Use await.").run(work())
    assert ran == []
