"""Runs awaitables concurrently."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from turnwise.ports.context import Suspend

T = TypeVar("T")


async def run_together(awaitables: Sequence[Awaitable[T]]) -> Sequence[T]:
    """Runs the awaitables concurrently and returns their results in order.

    When one raises, or the caller is cancelled, the others are cancelled. One that suspends does not stop the others:
    Suspend is raised once all others are done.
    """
    if len(awaitables) == 1:
        return [await awaitables[0]]
    tasks = [asyncio.ensure_future(work) for work in awaitables]
    try:
        suspended = await asyncio.gather(*map(_is_suspended, tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if any(suspended):
        raise Suspend
    return [task.result() for task in tasks]


async def _is_suspended(task: "asyncio.Future[T]") -> bool:
    try:
        await task
    except Suspend:
        return True
    return False
