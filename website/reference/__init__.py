"""Makes the pages of the generated reference."""

from collections.abc import Iterable


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Returns a Markdown table; empty without rows."""
    lines = [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join([f"| {' | '.join(header)} |", f"|{'---|' * len(header)}", *lines]) + "\n" if lines else ""


def cell(text: str) -> str:
    """Returns the text as one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def plain(text: str) -> str:
    """Returns prose in which no character starts Markdown or HTML."""
    return text.replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")
