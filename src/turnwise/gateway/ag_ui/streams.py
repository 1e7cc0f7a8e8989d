"""Texts that come in pieces: opened, told bit by bit, and closed. Any number at once. Pure."""

from collections.abc import Generator, Iterator
from typing import Any

from turnwise.gateway.ag_ui.wire import Wire, event


class Streams:
    """The texts of one kind, by id. span: what is opened around each of them, if anything is."""

    def __init__(self, kind: str, span: str = "") -> None:
        self._kind, self._span = kind, span
        self._open: dict[str, _Coming] = {}

    @property
    def open(self) -> list[str]:
        """The ids of those that are begun and not ended."""
        return list(self._open)

    def is_open(self, id_: str) -> bool:
        return id_ in self._open

    def piece(self, id_: str, text: str, offset: int | None, **about: Any) -> Iterator[Wire]:
        """The next piece of that text. offset: where in the text it stands; None = next. What leaves a gap is put aside, and
        so is all of a text whose beginning did not come: the whole will tell it. about: what its opening tells.
        """
        coming = self._open.get(id_)
        if coming is None:
            if offset:
                return
            coming = self._open[id_] = _Coming(about.get("subagentRunId"))
            yield from self._begin(id_, about)
        if delta := coming.take(text, offset):
            yield self._delta(id_, delta, coming.tag)

    def whole(self, id_: str, text: str, **about: Any) -> Generator[Wire, None, bool]:
        """All of that text, which is its end. Gives whether the client has it now as it is."""
        tag = about.get("subagentRunId")
        if id_ not in self._open:
            self._open[id_] = _Coming(tag)
            yield from self._begin(id_, about)
        told = self._open[id_].told
        fits = text.startswith(told)
        if fits and text != told:
            yield self._delta(id_, text[len(told) :], tag)
        yield from self.end(id_)
        return fits

    def end(self, id_: str) -> Iterator[Wire]:
        """That text ends here, if it was begun."""
        coming = self._open.pop(id_, None)
        if coming is not None:
            yield event(f"{self._kind}_END", messageId=id_, subagentRunId=coming.tag)
            if self._span:
                yield event(f"{self._span}_END", messageId=id_, subagentRunId=coming.tag)

    def end_all(self) -> Iterator[Wire]:
        """Whatever was begun ends here."""
        for id_ in list(self._open):
            yield from self.end(id_)

    def _begin(self, id_: str, about: dict[str, Any]) -> Iterator[Wire]:
        if self._span:
            yield event(f"{self._span}_START", messageId=id_, subagentRunId=about.get("subagentRunId"))
        yield event(f"{self._kind}_START", messageId=id_, **about)

    def _delta(self, id_: str, text: str, tag: str | None) -> Wire:
        return event(f"{self._kind}_CONTENT", messageId=id_, delta=text, subagentRunId=tag)


class _Coming:
    """A text that comes bit by bit. told: what was told of it."""

    def __init__(self, tag: str | None) -> None:
        self.tag = tag
        self._pieces: list[str] = []
        self._length = 0
        self._torn = False

    @property
    def told(self) -> str:
        return "".join(self._pieces)

    def take(self, text: str, offset: int | None) -> str:
        """What is new in that piece."""
        missing = 0 if offset is None else offset - self._length
        self._torn |= missing > 0
        if self._torn:
            return ""
        new = text[-missing:] if missing < 0 else text
        if missing < 0 and -missing >= len(text):
            return ""
        self._pieces.append(new)
        self._length += len(new)
        return new
