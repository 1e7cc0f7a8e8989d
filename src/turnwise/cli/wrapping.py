"""Breaks lines between words, for a terminal of a known width."""

import re
from collections.abc import Iterable, Iterator

from rich.cells import cell_len, chop_cells
from rich.text import Text

HANG = 2
LEAST_ROOM = 20
"""How many characters a continued line has at least; below that it is not indented."""
_WORD = re.compile(r"\s*\S+\s*")
_HEAD = re.compile(r"\s*(?:\d+(?:\.|  )\s*|→ )?")


def wrapped(lines: Iterable[Text], width: int | None) -> Iterator[Text]:
    """The lines, none wider than the width. A line goes on below its own first word; what stands before it is a number, an
    arrow or space. width: None = lines stay as they are.
    """
    for line in lines:
        if width is None:
            yield line
            continue
        for part in line.split("\n", allow_blank=True):
            yield from _continued(part, width)


def pieces(text: Text, room: int) -> list[Text]:
    """The text in pieces of that width, broken between words. A word that is wider than the room stays whole, for it may be
    a name that is copied; only text without spaces between its words, such as Chinese, is broken anywhere.
    """
    found = list(text.divide(list(_breaks(text.plain, max(room, 1))))) if text.plain else []
    for piece in found:
        piece.rstrip()
    return found


def _breaks(text: str, room: int) -> Iterator[int]:
    """Where the text is broken."""
    used = 0
    for word in _WORD.finditer(text):
        taken = cell_len(word[0].rstrip())
        if used and used + taken > room:
            yield word.start()
            used = 0
        if taken > room and taken > len(word[0].rstrip()):
            *full, last = chop_cells(word[0], room)
            at = word.start()
            for part in full:
                at += len(part)
                yield at
            used = cell_len(last)
        else:
            used += cell_len(word[0])


def _continued(line: Text, width: int) -> Iterator[Text]:
    if cell_len(line.plain) <= width:
        yield line
        return
    head = _HEAD.match(line.plain)
    assert head is not None
    hang = len(head[0]) if head[0].strip() else len(head[0]) + HANG
    if width - hang < LEAST_ROOM:
        yield from pieces(line, width)
        return
    first, rest = line.divide([hang])
    for number, piece in enumerate(pieces(rest, width - cell_len(first.plain))):
        yield first.append_text(piece) if number == 0 else Text(" " * hang).append_text(piece)
