"""`turnwise migrate`: brings the database of the sessions to this version's tables, or tells whether that is necessary."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.exits import FAILED
from turnwise.cli.options import ConfigOption, JsonOption

if TYPE_CHECKING:
    from turnwise.ports.maintenance import SchemaStatus


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command(short_help="Migrate the database, or check whether that is necessary.")(migrate)


def migrate(
    config: ConfigOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing. Exits with 1 if the database has to be migrated.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Migrate the database of the sessions to the tables of this version.

    The first use migrates it as well; this command does it at a time that you choose. Back the database up before.
    """
    from turnwise.assemble import check_schema
    from turnwise.cli import terminal

    place, before = check_schema(config)
    now = before
    if not check and not before.is_current:
        asyncio.run(_migrate(config))
        now = check_schema(config)[1]
    if as_json:
        terminal.print_json({"store": place, "found": before.found, "wanted": now.wanted, "current": now.is_current})
    else:
        terminal.print_line(_text(place, before, now))
    if not now.is_current:
        raise typer.Exit(FAILED)


def _text(place: str, before: "SchemaStatus", now: "SchemaStatus") -> str:
    """Returns the result in words."""
    if not now.is_current:
        moving = ", and rows are still to be moved" if now.is_moving else ""
        return f"{place}: revision {now.found or 'unknown'}, this version needs {now.wanted}{moving}. Run: turnwise migrate"
    if before.found is None:
        return f"{place}: no tables yet; the first use creates them at revision {now.wanted}."
    if before.is_current:
        return f"{place}: revision {now.wanted}, nothing to migrate."
    return f"{place}: migrated from revision {before.found} to {now.wanted}."


async def _migrate(config: Path | None) -> None:
    """Opens the store for writing, which migrates it."""
    from turnwise.assemble import load_store

    loaded = load_store(config)
    try:
        await loaded.store.maintenance.check_writable()
    finally:
        await loaded.store.close()
