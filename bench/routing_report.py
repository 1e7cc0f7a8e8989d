"""Prints the routing figures as a table, and writes a report page for each evaluation."""

from collections.abc import Sequence
from pathlib import Path

from bench.routing import Bench, Row
from rich import box
from rich.console import Console
from rich.table import Table

from turnwise.learning.report import page


def shown(rows: Sequence[Row]) -> bool:
    """Prints the table. Returns whether every floor is reached."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    table = Table(
        title="Which agent, on public data", title_justify="left", box=box.SIMPLE_HEAD if console.is_terminal else box.ASCII2
    )
    table.add_column("figure")
    for heading in ("Turnwise", "floor", "goal", "semantic-router"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for row in rows:
        bound = row.bound
        if bound.kept(row.value, bound.goal):
            verdict = "[green]goal[/]"
        else:
            verdict = "[yellow]floor[/]" if bound.kept(row.value, bound.floor) else "[red]MISSED[/]"
        sign = "≤ " if bound.at_most else "≥ "
        peer = "" if row.peer is None else f"{row.peer:.1f}"
        table.add_row(row.name, _value(row), f"{sign}{bound.floor:g}", f"{sign}{bound.goal:g}", peer, verdict)
    console.print(table)
    return all(row.bound.kept(row.value, row.bound.floor) for row in rows)


def written(folder: Path, bench: Bench) -> None:
    """Writes one report for each evaluation into that folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for title, found in bench.evaluations.items():
        name = "".join(sign if sign.isalnum() else "-" for sign in title.lower())
        (folder / f"{name.replace('--', '-')}.html").write_text(page(found), "utf-8")


def _value(row: Row) -> str:
    digits = 1 if row.unit == "%" else 2 if row.value >= 0.1 else 3
    return f"{row.value:.{digits}f} {row.unit}"
