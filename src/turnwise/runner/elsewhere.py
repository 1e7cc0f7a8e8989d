"""Messages that are answered outside this handle: by another process, or before."""

import asyncio

from turnwise.facts.errors import SessionBusy, SessionError
from turnwise.facts.events import USER
from turnwise.ports.stores import Receipt, SessionStore
from turnwise.runner.continuation import is_being_answered
from turnwise.runner.job import Job

POLL_SECONDS = 0.05


async def follow(store: SessionStore, job: Job, receipt: Receipt) -> None:
    """Gives the job's readers the stored events of a message that was started elsewhere, until it ends or waits.

    Raises SessionError when it was refused, SessionBusy when nobody is answering it any more, or nobody ends it within the
    job's time limit.
    """
    if receipt.invocation_id is None:
        raise SessionError(f"Message {job.message.id!r} was refused before: {receipt.problem}.", fix="Send it under a new id.")
    job.invocation.id = receipt.invocation_id
    seconds = job.config.deadline_seconds or job.config.limits.invocation_seconds
    try:
        async with asyncio.timeout(seconds):
            answered = await _pass_on(store, job, receipt.invocation_id)
    except TimeoutError:
        answered = False
    if not answered:
        raise SessionBusy(
            f"Message {job.message.id!r} was started by a process that has not ended it.", fix="Send it under a new id."
        )


async def _pass_on(store: SessionStore, job: Job, invocation_id: str) -> bool:
    """Publishes the message's events as they are stored; False when their writer is gone before the end."""
    feed, seen, begun = job.invocation.feed, 0, False
    while True:
        session = await store.open(job.key)
        # The session is read first: what it says is over has all its events in the log by now.
        for event in await store.events(job.key, after=seen, invocation_id=invocation_id, hidden=True):
            seen = event.sequence or seen
            if begun and event.author == USER:
                feed.close()
                return True
            begun = begun or event.id == job.event_id
            if begun:
                feed.publish(event)
        open_ = session.head.invocations.get(invocation_id) if session else None
        if session is None or open_ is None:
            feed.close()
            return True
        if not is_being_answered(session, open_):
            if open_.state == "waiting":
                feed.close()
            return open_.state == "waiting"
        await asyncio.sleep(POLL_SECONDS)
