"""`turnwise prune`: deletes what the rules of retention no longer keep."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import ConfigOption, JsonOption

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(short_help="Delete what `retention` no longer keeps.")(prune)


def prune(
    config: ConfigOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count; delete nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete old data by the rules under `retention`. Sessions in use and users with a legal hold are spared."""
    asyncio.run(_prune(config, dry_run, as_json))


async def _prune(config: "Path | None", dry_run: bool, as_json: bool) -> None:
    """Prunes all users, or only counts, and prints the counts."""
    from turnwise.cli import terminal
    from turnwise.cli.options import open_app

    counts: Mapping[str, int] = {}
    async with open_app(config) as turnwise:
        async for counts in turnwise.runner.pruning.whole_pass(dry_run=dry_run):
            if not as_json and any(counts.values()):
                terminal.print_note(_text(counts))
    if as_json:
        terminal.print_json({"dry_run": dry_run, "pruned": dict(counts)})
    elif any(counts.values()):
        terminal.print_line(f"{'Would prune' if dry_run else 'Pruned'} {_text(counts)}.")
    else:
        terminal.print_line("There is nothing to prune.")


def _text(counts: "Mapping[str, int]") -> str:
    return ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()) if number)
