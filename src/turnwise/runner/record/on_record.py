"""What an invocation has on record, for whoever ends it without running it."""

from collections.abc import Iterable

from turnwise.facts.events import StepRecord
from turnwise.facts.sessions import Session
from turnwise.ports.stores import SessionStore
from turnwise.runner.record.journal import journal_of


async def steps_of(store: SessionStore, session: Session, invocation_id: str) -> Iterable[StepRecord]:
    """The recorded steps of the session's invocation, as far as its end needs them: none are read when no tool call of it
    is open.
    """
    if not any(call.invocation_id == invocation_id for call in session.head.calls.values()):
        return ()
    return journal_of(await store.events(session.key, invocation_id=invocation_id)).steps.values()
