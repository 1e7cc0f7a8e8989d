"""Wraps lines and tables to the width of the terminal."""

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, chop_cells
from rich.text import Text

from turnwise.cli import rendering

HANGING_INDENT = 2
MIN_ROOM = 20
"""Minimum width of a continuation line; with less room it is not indented."""
_WORD = re.compile(r"\s*\S+\s*")
_HEAD = re.compile(r"\s*(?:\d+(?:\.|  )\s*|→ )?")


def wrap(lines: Iterable[Text], width: int | None) -> Iterator[Text]:
    """Wraps the lines to the width. Continuation lines are indented to the line's first word, after a number, an arrow or
    spaces.

    Args:
        width: None = lines are not wrapped.
    """
    for line in lines:
        if width is None:
            yield line
            continue
        for part in line.split("\n", allow_blank=True):
            yield from _wrap_line(part, width)


def break_text(text: Text, room: int) -> list[Text]:
    """Breaks the text between words into pieces of that width.

    A word wider than the room stays whole, because it may be a name to copy. Only text without spaces, such as Chinese, is
    broken anywhere.
    """
    found = list(text.divide(list(_breaks(text.plain, max(room, 1))))) if text.plain else []
    for piece in found:
        piece.rstrip()
    return found


def _breaks(text: str, room: int) -> Iterator[int]:
    """Yields the positions at which the text is broken."""
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


def _wrap_line(line: Text, width: int) -> Iterator[Text]:
    """Yields the line in pieces of at most `width` cells; later pieces are indented."""
    if cell_len(line.plain) <= width:
        yield line
        return
    head = _HEAD.match(line.plain)
    assert head is not None
    hang = len(head[0]) if head[0].strip() else len(head[0]) + HANGING_INDENT
    if width - hang < MIN_ROOM:
        yield from break_text(line, width)
        return
    first, rest = line.divide([hang])
    for number, piece in enumerate(break_text(rest, width - cell_len(first.plain))):
        yield first.append_text(piece) if number == 0 else Text(" " * hang).append_text(piece)


MIN_LAST_COLUMN = 24
"""Minimum width of the last column; with less room it goes below the other columns."""
_BELOW_INDENT = 3
_MIN_VALUE = 12


def fit_table(
    columns: Sequence[str], rows: Iterable[Sequence[str | Text]], width: int | None, *, right: Iterable[str] = ()
) -> Iterator[Text]:
    """A table like `rendering.table`, fitted to the width.

    The last column is wrapped, or placed below its row if there is little room. If even the other columns are too wide, each
    row becomes a list of names and values.

    Args:
        width: None = unlimited.
        right: the columns that are aligned right.
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
        yield from _rows_as_lists(columns, cells, width)
    elif width - taken >= MIN_LAST_COLUMN:
        yield from _last_column_beside(others, last, taken, width - taken)
    else:
        yield from _last_column_below(others, last, width - _BELOW_INDENT)


def _last_column_beside(others: Sequence[Text], last: Sequence[Text], taken: int, room: int) -> Iterator[Text]:
    for line, text in zip(others, last, strict=True):
        broken = break_text(text, room) or [Text()]
        line.append(" " * (taken - cell_len(line.plain))).append_text(broken[0]).rstrip()
        yield line
        yield from (rendering.indent(piece, taken) for piece in broken[1:])


def _last_column_below(others: Sequence[Text], last: Sequence[Text], room: int) -> Iterator[Text]:
    for line, text in zip(others, last, strict=True):
        yield line
        yield from (rendering.indent(piece, _BELOW_INDENT) for piece in break_text(text, room))


def _rows_as_lists(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], width: int) -> Iterator[Text]:
    """Each row as lines of a column's name and value, with a blank line between rows. Empty values are omitted.

    The value of a column without a name is put before the next column's value.
    """
    names = max(map(len, columns))
    beside = width - names - 2 >= _MIN_VALUE
    for number, row in enumerate(rows):
        if number:
            yield Text()
        before = Text()
        for name, cell in zip(columns, row, strict=True):
            value = before + (Text(cell) if isinstance(cell, str) else cell)
            before = Text() if name else value.append(" " if value.plain else "")
            if name and value.plain:
                yield from _named_value(rendering.styled(name, "dim"), value, names + 2 if beside else 0, width)


def _named_value(name: Text, value: Text, indent: int, width: int) -> Iterator[Text]:
    """Yields a value after its name, or below the name when there is no indent."""
    if not indent:
        yield name
        yield from (rendering.indent(piece, _BELOW_INDENT) for piece in break_text(value, width - _BELOW_INDENT))
        return
    name.append(" " * (indent - len(name.plain)))
    for number, piece in enumerate(break_text(value, width - indent)):
        yield name.append_text(piece) if number == 0 else rendering.indent(piece, indent)
