"""Whoever waits for an answer when this process leaves is told to ask again."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from turnwise.facts.errors import Closing
from turnwise.gateway.front import Front
from turnwise.runner import Invocation

T = TypeVar("T")

PART_OF_GRACE = 0.8
"""How much of the time that answers may still take is waited. In the rest it can be said that this one did not come."""


async def unless_leaving(front: Front, invocation: Invocation, work: Coroutine[Any, Any, T]) -> T:
    """What the work for that answer gives. Closing, which says how to come to it, when the process leaves before."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_leaving(front))
    try:
        either: set[asyncio.Future[Any]] = {working, leaving}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
    raise Closing(
        "This process is being stopped before the answer is there.",
        fix=f"Ask again with session {invocation.session.id!r} and message_id {invocation.message_id!r}: it is answered once.",
    )


async def _leaving(front: Front) -> None:
    await front.closing.wait()
    await asyncio.sleep(front.config.grace_seconds * PART_OF_GRACE)
