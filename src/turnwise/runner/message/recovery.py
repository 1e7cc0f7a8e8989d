"""What becomes of an invocation whose process is gone. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from turnwise.facts.events import USER, End, Event
from turnwise.facts.sessions import OpenInvocation, Session
from turnwise.facts.tree import AgentTree


class Orphan(NamedTuple):
    """An invocation that nobody runs any more though it has not ended and does not wait."""

    invocation_id: str
    open: OpenInvocation


def orphan_of(session: Session, me: str | None = None) -> Orphan | None:
    """The session's orphan; None when it has none, or somebody holds the session.

    `me` is a holder that is known not to run anything there: it gave up when the store could not be reached.
    """
    if session.holder not in (None, me):
        return None
    running = [Orphan(id_, open_) for id_, open_ in session.head.invocations.items() if open_.state == "running"]
    return min(running, key=lambda orphan: orphan.open.began, default=None)


def fate_of(orphan: Orphan, session: Session, tree: AgentTree, attempts: int) -> End | None:
    """How the orphan ends without being run again; None when it gets another attempt."""
    open_ = orphan.open
    if session.stop == orphan.invocation_id:
        return End(reason="cancelled", detail="It was to be stopped when its process died.")
    died = open_.attempt - open_.settled
    if died >= attempts:
        return End(reason="limit:attempts", detail=f"Its process died {died} times before it came further.")
    if open_.agent not in tree:
        return End(reason="failed", detail=f"Agent {open_.agent!r} is no longer in the tree.")
    return None


def asked_of(events: Sequence[Event]) -> Event | None:
    """The message that the invocation with these events was answering: the user's last; None when it was taken back."""
    return next((event for event in reversed(events) if event.author == USER and event.content is not None), None)
