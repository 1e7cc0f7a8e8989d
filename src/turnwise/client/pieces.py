"""Pieces of answers that come over several connections: none is shown twice."""

from turnwise.facts.content import text_content
from turnwise.facts.events import Event


class Pieces:
    """What the reader of one answer has had of it."""

    def __init__(self) -> None:
        self._had: dict[str, int] = {}
        self._before_cut: set[str] = set()
        self._whole: set[str] = set()

    def new_in(self, event: Event, after: int) -> Event | None:
        """What the reader has not had; None when that is nothing. after: the sequence number up to which it has everything."""
        if not event.partial:
            self._whole.add(event.id)
            return event if event.sequence is None or event.sequence > after else None
        if event.id in self._whole:
            return None
        had, offset, text = self._had.get(event.id, 0), event.offset or 0, event.text
        if event.id in self._before_cut:
            if not text:
                return None  # a piece without text has no place by which it could be known again
            if offset < had:
                text, offset = text[had - offset :], had
                if not text:
                    return None
                event = event.model_copy(update={"content": text_content(text), "offset": offset})
        self._had[event.id] = max(had, offset + len(text))
        return event

    def cut(self) -> None:
        """The connection broke off: what was in pieces then may begin anew."""
        self._before_cut |= self._had.keys()
