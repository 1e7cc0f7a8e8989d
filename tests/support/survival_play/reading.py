"""A reader that is cut again and again, and goes on where it was."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from turnwise import Event, Runner
from turnwise.facts.errors import InvocationMissing, SessionMissing

USER = "ann"
LOST_AFTER = 0.1


async def read_in_pieces(runner: Runner, session: str, message_id: str, cuts: int, dice: random.Random) -> dict[str, Any]:
    """Attaches, is cut after some events or seconds, attaches again: `cuts` times, and then reads to the end.

    Gives the stored events it saw as (sequence, id), how many partial ones, and how often it was cut.
    """
    seen: list[tuple[int, str]] = []
    partials = done = 0
    while True:
        last = seen[-1][0] if seen else 0
        try:
            invocation = await runner.attach(user=USER, session=session, message_id=message_id)
        except (SessionMissing, InvocationMissing):
            await asyncio.sleep(0.01)  # it is not accepted yet
            continue
        events = invocation.events(after=last)
        if done == cuts:
            return {"seen": seen, "partials": partials + await _piece(events, seen, None), "cuts": done}
        reading = asyncio.create_task(_piece(events, seen, dice.randint(1, 4)))
        # Half of them leave by themselves, half are torn away while they wait.
        await asyncio.wait({reading}, timeout=LOST_AFTER if dice.random() < 0.5 else None)
        reading.cancel()
        (found,) = await asyncio.gather(reading, return_exceptions=True)
        if isinstance(found, int):
            partials += found
        elif not isinstance(found, asyncio.CancelledError):
            raise found
        done += 1


async def _piece(events: AsyncIterator[Event], seen: list[tuple[int, str]], count: int | None) -> int:
    """Reads so many stored events, None = all, and adds them to `seen`; gives how many partial ones came between."""
    partials, enough = 0, None if count is None else len(seen) + count
    try:
        async for event in events:
            if event.partial:
                partials += 1
                continue
            assert event.sequence is not None
            seen.append((event.sequence, event.id))
            if len(seen) == enough:
                break
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()
    return partials
