import asyncio
import subprocess
import sys
import threading

import pytest

from turnwise.tools.event_loop import Threads, in_thread

ENDS_WITH_A_HANGING_ONE = """
import asyncio, threading
from turnwise.tools.event_loop import in_thread

async def main():
    for _ in range(9):
        asyncio.ensure_future(in_thread(threading.Event().wait))
    print(await in_thread(divmod, 7, 2), await asyncio.to_thread(divmod, 7, 2))

asyncio.run(main())
"""


async def test_what_a_function_gives_and_raises_comes_back() -> None:
    assert await in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 7, 0)


async def test_a_stop_of_an_iteration_does_not_hang() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(in_thread(next, iter(())), 30)


def test_functions_that_hang_hold_up_neither_others_nor_the_end() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDS_WITH_A_HANGING_ONE], capture_output=True, text=True, timeout=60, check=True
    )
    assert (ended.stdout.strip(), ended.stderr) == ("(3, 1) (3, 1)", "")


def test_what_is_too_much_at_once_waits_for_its_turn() -> None:
    threads, gate = Threads(2), threading.Event()
    begun = [threading.Event() for _ in range(4)]

    def work(number: int) -> None:
        begun[number].set()
        gate.wait(30)

    for number in range(4):
        threads.start(lambda number=number: work(number))  # type: ignore[misc]
    assert begun[0].wait(30)
    assert begun[1].wait(30)
    assert not begun[2].wait(0.05)
    gate.set()
    assert begun[2].wait(30)
    assert begun[3].wait(30)


async def test_what_nobody_waits_for_any_more_is_not_begun() -> None:
    ran: list[int] = []
    task = asyncio.ensure_future(in_thread(ran.append, 1))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ran == []
