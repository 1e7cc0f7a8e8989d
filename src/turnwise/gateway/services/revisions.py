"""Conditional writes: which revision of a session a request is for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from turnwise.facts.errors import PreconditionFailed, StaleWriter
from turnwise.facts.sessions import Session

FIX = "Read the session again, and send its new ETag."


class Expected(NamedTuple):
    """The revisions that a write is for; None = any revision of a session that exists."""

    revisions: frozenset[int] | None = None

    def check(self, session: Session | None) -> int:
        """Returns the session's revision. PreconditionFailed for another revision, and for a session that does not exist."""
        if session is None:
            raise PreconditionFailed("The session does not exist.", fix="Leave out If-Match to create it.", where=_WHERE)
        if self.revisions is not None and session.revision not in self.revisions:
            raise PreconditionFailed(f"The session has revision {session.revision} by now.", fix=FIX, where=_WHERE)
        return session.revision


@contextmanager
def as_precondition(expected: Expected | None) -> Iterator[None]:
    """Turns StaleWriter into PreconditionFailed, for a request that expects a revision."""
    try:
        yield
    except StaleWriter:
        if expected is None:
            raise
        raise PreconditionFailed("The session has changed meanwhile.", fix=FIX, where=_WHERE) from None


_WHERE = ("header", "If-Match")
