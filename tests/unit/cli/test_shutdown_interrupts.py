"""Ctrl-C: the first asks for an end. (That a second one leaves is shown with a real process.)"""

import asyncio
import os
import signal

from turnwise.cli.shutdown import Interrupts


async def test_the_first_calls_what_it_was_given() -> None:
    asked = asyncio.Event()
    with Interrupts(asked.set):
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(asked.wait(), 10)


async def test_what_was_there_before_comes_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts(lambda: None):
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


async def test_other_signals_may_ask_too() -> None:
    asked = asyncio.Event()
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts(asked.set, (signal.SIGINT, signal.SIGTERM), hints=False):
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(asked.wait(), 10)
    assert signal.getsignal(signal.SIGTERM) == before
