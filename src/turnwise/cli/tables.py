"""Tables that keep to the width of a terminal."""

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from turnwise.cli import rendering
from turnwise.cli.wrapping import pieces

LEAST_BESIDE = 24
"""So many characters wide the last column has to be beside the others; else it goes below them."""
_BELOW = 3
_LEAST_VALUE = 12


def fitted(
    columns: Sequence[str], rows: Iterable[Sequence[str | Text]], width: int | None, *, right: Iterable[str] = ()
) -> Iterator[Text]:
    """A table as `rendering.table` makes it, whose last column is broken to keep to the width, or stands below its row, where
    the others leave it no room. Where even the others have none, each row is a list of names and values. width: None = as
    wide as it comes.
    """
    cells = list(rows)
    whole = list(rendering.table(columns, cells, right=right))
    if width is None or all(cell_len(line.plain) <= width for line in whole):
        yield from whole
        return
    others = list(rendering.table(columns[:-1], [row[:-1] for row in cells], right=right))
    last = [rendering.styled(columns[-1], "dim"), *(Text(row[-1]) if isinstance(row[-1], str) else row[-1] for row in cells)]
    taken = max(cell_len(line.plain) for line in others) + 2
    if taken - 2 > width:
        yield from _listed(columns, cells, width)
    elif width - taken >= LEAST_BESIDE:
        yield from _beside(others, last, taken, width - taken)
    else:
        yield from _below(others, last, width - _BELOW)


def _beside(others: Sequence[Text], last: Sequence[Text], taken: int, room: int) -> Iterator[Text]:
    for line, text in zip(others, last, strict=True):
        broken = pieces(text, room) or [Text()]
        line.append(" " * (taken - cell_len(line.plain))).append_text(broken[0]).rstrip()
        yield line
        yield from (rendering.indented(piece, taken) for piece in broken[1:])


def _below(others: Sequence[Text], last: Sequence[Text], room: int) -> Iterator[Text]:
    for line, text in zip(others, last, strict=True):
        yield line
        yield from (rendering.indented(piece, _BELOW) for piece in pieces(text, room))


def _listed(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], width: int) -> Iterator[Text]:
    """Each row as lines of a column's name and its value, a blank line between rows; values that are empty are left out.

    A column without a name is told before the value of the next one.
    """
    names = max(map(len, columns))
    beside = width - names - 2 >= _LEAST_VALUE
    for number, row in enumerate(rows):
        if number:
            yield Text()
        before = Text()
        for name, cell in zip(columns, row, strict=True):
            value = before + (Text(cell) if isinstance(cell, str) else cell)
            before = Text() if name else value.append(" " if value.plain else "")
            if name and value.plain:
                yield from _named(rendering.styled(name, "dim"), value, names + 2 if beside else 0, width)


def _named(name: Text, value: Text, indent: int, width: int) -> Iterator[Text]:
    if not indent:
        yield name
        yield from (rendering.indented(piece, _BELOW) for piece in pieces(value, width - _BELOW))
        return
    name.append(" " * (indent - len(name.plain)))
    for number, piece in enumerate(pieces(value, width - indent)):
        yield name.append_text(piece) if number == 0 else rendering.indented(piece, indent)
