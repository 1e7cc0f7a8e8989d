"""Conditional writes: the session revisions that a request accepts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from turnwise.facts.errors import PreconditionFailed, SessionMissing, StaleWriter
from turnwise.facts.sessions import Session

FIX = "Read the session again, and send its new ETag."


class Expected(NamedTuple):
    """The revisions that a write accepts; None accepts any revision of an existing session."""

    revisions: frozenset[int] | None = None

    def check(self, session: Session | None) -> int | None:
        """Returns the revision that the session must still have when it is written; None if it only has to exist.

        Raises:
            PreconditionFailed: The session has another revision, or does not exist.
        """
        if session is None:
            raise PreconditionFailed("The session does not exist.", fix="Leave out If-Match to create it.", where=_WHERE)
        if self.revisions is not None and session.revision not in self.revisions:
            raise PreconditionFailed(f"The session has revision {session.revision} by now.", fix=FIX, where=_WHERE)
        return None if self.revisions is None else session.revision


@contextmanager
def as_precondition(expected: Expected | None) -> Iterator[None]:
    """Converts StaleWriter and SessionMissing to PreconditionFailed, if the request expects a revision."""
    try:
        yield
    except (StaleWriter, SessionMissing):
        if expected is None:
            raise
        problem = "The session has changed meanwhile, or has queued messages that will change it."
        raise PreconditionFailed(problem, fix=FIX, where=_WHERE) from None


_WHERE = ("header", "If-Match")
