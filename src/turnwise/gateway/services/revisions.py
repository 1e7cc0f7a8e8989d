"""Conditional writes: the session revisions that a request accepts."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from turnwise.facts.errors import PreconditionFailed, SessionMissing, StaleWriter
from turnwise.facts.sessions import Session

FIX = "Read the session again, and send its new ETag."
_NAMED = 5
"""The most expected revisions that an error names."""
_WHERE = ("header", "If-Match")


class Expected(NamedTuple):
    """The revisions that a write accepts; None accepts any revision of an existing session."""

    revisions: frozenset[int] | None = None

    def check(self, session: Session | None) -> int | None:
        """Returns the revision that the session must still have when it is written; None if it only has to exist.

        Raises:
            PreconditionFailed: The session has another revision, or does not exist.
        """
        if session is None or not self._accepts(session):
            raise self.unmet(session)
        return None if self.revisions is None else session.revision

    def unmet(self, session: Session | None) -> PreconditionFailed:
        """Returns the error of a write that was refused. It names the expected revisions and the session's own.

        Args:
            session: The session as it is now; None if it does not exist.
        """
        if session is None:
            return PreconditionFailed("The session does not exist.", fix="Leave out If-Match to create it.", where=_WHERE)
        if self._accepts(session):  # a queued message, for example, has not changed it yet
            problem = f"The session still has revision {session.revision}, but another write came first or waits in its queue."
            return PreconditionFailed(problem, fix=FIX, where=_WHERE)
        problem = f"If-Match expects {self._named()}, the session has revision {session.revision}."
        return PreconditionFailed(problem, fix=FIX, where=_WHERE)

    def _accepts(self, session: Session) -> bool:
        return self.revisions is None or session.revision in self.revisions

    def _named(self) -> str:
        if not self.revisions:
            return "no revision of a session"
        named = [str(revision) for revision in sorted(self.revisions)[:_NAMED]]
        return f"revision {', '.join(named)}{', …' if len(self.revisions) > _NAMED else ''}"


@asynccontextmanager
async def as_precondition(expected: Expected | None, session: Callable[[], Awaitable[Session | None]]) -> AsyncIterator[None]:
    """Converts StaleWriter and SessionMissing to PreconditionFailed, if the request expects a revision.

    Args:
        expected: What the request expects; None if it expects nothing.
        session: Reads the session once more, for the error.
    """
    try:
        yield
    except (StaleWriter, SessionMissing):
        if expected is None:
            raise
        raise expected.unmet(await session()) from None
