"""Tables that keep to the width of a terminal."""

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from turnwise.cli import rendering, terminal

LEAST_BESIDE = 24
"""So many characters wide the last column has to be beside the others; else it goes below them."""
_BELOW = 3


def fitted(
    columns: Sequence[str], rows: Iterable[Sequence[str | Text]], width: int | None, *, right: Iterable[str] = ()
) -> Iterator[Text]:
    """A table as `rendering.table` makes it, whose last column is broken to keep to the width, or stands below its row, where
    the others leave it no room. width: None = as wide as it comes.
    """
    cells = list(rows)
    whole = list(rendering.table(columns, cells, right=right))
    if width is None or all(cell_len(line.plain) <= width for line in whole):
        yield from whole
        return
    others = list(rendering.table(columns[:-1], [row[:-1] for row in cells], right=right))
    last = [rendering.styled(columns[-1], "dim"), *(Text(row[-1]) if isinstance(row[-1], str) else row[-1] for row in cells)]
    taken = max(cell_len(line.plain) for line in others) + 2
    if width - taken >= LEAST_BESIDE:
        yield from _beside(others, last, taken, width - taken)
    else:
        yield from _below(others, last, width - _BELOW)


def _beside(others: Sequence[Text], last: Sequence[Text], taken: int, room: int) -> Iterator[Text]:
    for line, text in zip(others, last, strict=True):
        pieces = _broken(text, room) or [Text()]
        line.append(" " * (taken - cell_len(line.plain))).append_text(pieces[0]).rstrip()
        yield line
        yield from (rendering.indented(piece, taken) for piece in pieces[1:])


def _below(others: Sequence[Text], last: Sequence[Text], room: int) -> Iterator[Text]:
    for line, text in zip(others, last, strict=True):
        yield line
        yield from (rendering.indented(piece, _BELOW) for piece in _broken(text, room))


def _broken(text: Text, room: int) -> list[Text]:
    pieces = list(text.wrap(terminal.out(), max(room, 1))) if text.plain else []
    for piece in pieces:
        piece.rstrip()
    return pieces
