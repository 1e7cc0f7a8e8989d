"""The ids of one invocation's events: no two share one, and none has one that the log knows already."""

from typing import NamedTuple
from urllib.parse import quote, unquote

from turnwise.facts.ids import Issuer


class Origin(NamedTuple):
    """Which message a user event holds: the session's id it came to, and the caller's id."""

    session: str
    message: str

    @property
    def event_id(self) -> str:
        """The id of the user event, so that it is found by its message, and cannot be stored twice.

        The session is part of it: a fork's copied messages do not take the ids of its own.
        """
        return f"message:{quote(self.session, safe='')}:{self.message}"


def origin_of(event_id: str) -> Origin:
    """The message that the user event of that id holds."""
    session, _, message = event_id.removeprefix("message:").partition(":")
    return Origin(unquote(session), message)


class EventIds:
    """Issues ids, and replaces those that agents bring along.

    The store leaves an event out whose id it knows, and with it whatever the event does, such as ending the invocation. So
    an event that was said before, comes from the history, or was made elsewhere gets a new id.
    """

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer
        self._unused: set[str] = set()
        self._renamed: dict[str, str] = {}

    def issue(self) -> str:
        """An id for one event."""
        id_ = self._issuer.new_id("event")
        self._unused.add(id_)
        return id_

    def own(self, id_: str, *, partial: bool) -> str:
        """The id, if it was issued here and not used yet, else a new one. Partial events share it with the final one."""
        own = id_ if id_ in self._unused else self._renamed.get(id_)
        if own is None:
            own = self._renamed[id_] = self.issue()
        if not partial:
            self._unused.discard(own)
            self._renamed.pop(id_, None)
        return own
