"""The ids of one invocation's events: no two share one, and none has one that the log knows already."""

from turnwise.facts.ids import Issuer


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
