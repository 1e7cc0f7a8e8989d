"""A text in pieces that follow from the text alone, however it came: so whoever reads it again counts the same pieces."""

import re
from collections.abc import Iterator

PIECE_CHARACTERS = 8
"""How many characters besides space a piece holds at most: a word as a rule."""

_PIECE = re.compile(rf"\s*\S{{1,{PIECE_CHARACTERS}}}|\s+")


def pieces_of(text: str, start: int = 0) -> Iterator[str]:
    """The pieces of a whole text from that place on, where one begins."""
    for match in _PIECE.finditer(text, start):
        yield match[0]


class Coming:
    """A text that comes bit by bit. gone: how many characters of it were given out."""

    def __init__(self) -> None:
        self._text = ""
        self.gone = 0

    def feed(self, text: str, offset: int | None) -> list[str]:
        """The pieces that are whole with this: more text cannot change them.

        offset: where in the text it stands; None = next. What leaves a gap is put aside: the whole will tell it.
        """
        known = len(self._text) if offset is None else offset
        if known > len(self._text):
            return []
        self._text += text[len(self._text) - known :]
        ready = []
        for match in _PIECE.finditer(self._text, self.gone):
            if match.end() == len(self._text) and len(match[0].strip()) < PIECE_CHARACTERS:
                break
            ready.append(match[0])
        self.gone += sum(map(len, ready))
        return ready

    def rest(self, whole: str) -> list[str]:
        """The pieces that are still missing of the text as it is in the end; none if that begins otherwise."""
        return list(pieces_of(whole, self.gone)) if whole.startswith(self._text[: self.gone]) else []
