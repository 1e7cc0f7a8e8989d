"""Messages that are answered outside this handle: by another process, or before."""

import asyncio

from turnwise.facts.errors import SessionBusy, SessionError
from turnwise.facts.events import USER, Event
from turnwise.ports.stores import Receipt, SessionStore
from turnwise.runner.job import Job

POLL_SECONDS = 0.05


def message_event_id(message_id: str) -> str:
    """The id of the user event that holds the message, so that it is found by it, and cannot be stored twice."""
    return f"message:{message_id}"


async def follow(store: SessionStore, job: Job, receipt: Receipt) -> None:
    """Gives the job's readers the stored events of a message that was started elsewhere, until it ends or waits.

    Raises SessionError when it was refused, SessionBusy when nothing ends it within the job's time limit.
    """
    if receipt.invocation_id is None:
        raise SessionError(f"Message {job.message.id!r} was refused before: {receipt.problem}.", fix="Send it under a new id.")
    job.invocation.id = receipt.invocation_id
    seconds = job.config.deadline_seconds or job.config.limits.invocation_seconds
    try:
        async with asyncio.timeout(seconds):
            await _pass_on(store, job, receipt.invocation_id)
    except TimeoutError:
        raise SessionBusy(
            f"Message {job.message.id!r} is answered by another process, which did not end it within {seconds:g} s."
        ) from None


async def _pass_on(store: SessionStore, job: Job, invocation_id: str) -> None:
    feed, seen, begun = job.invocation.feed, 0, False
    while True:
        for event in await store.events(job.key, after=seen, invocation_id=invocation_id):
            seen = event.sequence or seen
            if begun and event.author == USER:
                feed.close()
                return
            begun = begun or event.id == message_event_id(job.message.id)
            if begun:
                feed.publish(event)
                if _is_last(event):
                    feed.close()
                    return
        await asyncio.sleep(POLL_SECONDS)


def _is_last(event: Event) -> bool:
    return event.actions.end is not None or event.actions.awaits is not None
