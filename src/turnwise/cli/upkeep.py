"""Upkeep of the stores: `turnwise backup`, `restore`, `migrate` and `prune`."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.exits import FAILED
from turnwise.cli.options import ConfigOption, JsonOption, open_app

if TYPE_CHECKING:
    from collections.abc import Mapping

    from turnwise.ports.maintenance import SchemaStatus


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(short_help="Copy the SQLite store and the artifacts into one archive.")(backup)
    app.command(short_help="Restore an archive into an empty place.")(restore)
    app.command(short_help="Migrate the database, or check whether that is necessary.")(migrate)
    app.command(short_help="Delete what `retention` no longer keeps.")(prune)


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new archive, such as backup.zip.")],
    config: ConfigOption = None,
) -> None:
    """Copy the SQLite store, and artifacts in a folder, into one archive. The app may run meanwhile.

    For PostgreSQL, use pg_dump.
    """
    asyncio.run(_backup(config, file))


async def _backup(config: Path | None, file: Path) -> None:
    """Writes the backup, and says if artifacts are not in it."""
    from turnwise.cli import terminal
    from turnwise.runner.backup import StoreBackup

    async with open_app(config) as turnwise:
        made = StoreBackup(turnwise.runner.store, turnwise.runner.artifacts)
        await asyncio.to_thread(made.save, file, datetime.now(UTC))
    terminal.print_line(f"Backed up the store to {file}.")
    if made.leaves_out_artifacts:
        terminal.print_note("The artifacts are not in a folder and are not included. Back up their place, too.")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An archive that `turnwise backup` wrote.")],
    config: ConfigOption = None,
) -> None:
    """Restore an archive to the places that the configuration names. They must be empty, and the app must not run."""
    if not file.is_file():
        raise typer.BadParameter(f"There is no file {file}.", param_hint="'FILE'")
    asyncio.run(_restore(config, file))


async def _restore(config: Path | None, file: Path) -> None:
    """Restores a backup, and says if artifacts are not in it."""
    from turnwise.cli import terminal
    from turnwise.runner.backup import StoreBackup

    async with open_app(config) as turnwise:
        made = StoreBackup(turnwise.runner.store, turnwise.runner.artifacts)
        await asyncio.to_thread(made.restore, file)
    terminal.print_line(f"Restored the store from {file}.")
    if made.leaves_out_artifacts:
        terminal.print_note("The artifacts are not in a folder. Restore them to their place, too.")


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
        terminal.print_line(_migration_text(place, before, now))
    if not now.is_current:
        raise typer.Exit(FAILED)


def _migration_text(place: str, before: "SchemaStatus", now: "SchemaStatus") -> str:
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

    counts: Mapping[str, int] = {}
    async with open_app(config) as turnwise:
        async for counts in turnwise.runner.pruning.whole_pass(dry_run=dry_run):
            if not as_json and any(counts.values()):
                terminal.print_note(_counts_text(counts))
    if as_json:
        terminal.print_json({"dry_run": dry_run, "pruned": dict(counts)})
    elif any(counts.values()):
        terminal.print_line(f"{'Would prune' if dry_run else 'Pruned'} {_counts_text(counts)}.")
    else:
        terminal.print_line("There is nothing to prune.")


def _counts_text(counts: "Mapping[str, int]") -> str:
    return ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()) if number)
