"""Distinguishes exceptions of user code from a cancellation from outside."""

import asyncio
from typing import Any


def is_stopped(error: BaseException, task: "asyncio.Task[Any] | None") -> bool:
    """Returns whether the exception stops the code from outside and must propagate: its task was cancelled, or its coroutine
    closed.

    Any other exception is the code's own, including SystemExit, KeyboardInterrupt, and an unrequested GeneratorExit or
    cancellation.

    Args:
        error: The exception.
        task: The task that ran the code, as of the code's beginning.
    """
    if isinstance(error, asyncio.CancelledError):
        return task is not None and task.cancelling() > 0
    # A task never closes its own coroutine, so another task did.
    return isinstance(error, GeneratorExit) and _current_task() is not task


def _current_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
