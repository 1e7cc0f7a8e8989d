"""Tells what users' code raised from a stop from outside."""

import asyncio
from typing import Any


def is_stopped(error: BaseException, task: "asyncio.Task[Any] | None") -> bool:
    """Whether the exception stops the code from outside, and must go on: its task is cancelled, or its coroutine is closed.

    Everything else is what the code itself raised, also SystemExit, KeyboardInterrupt, and a GeneratorExit or a cancellation
    nobody asked for. task: the one that runs the code, as it was when the code began.
    """
    if isinstance(error, asyncio.CancelledError):
        return task is not None and task.cancelling() > 0
    # A task never closes its own coroutine: whoever does is outside of it.
    return isinstance(error, GeneratorExit) and _current_task() is not task


def _current_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
