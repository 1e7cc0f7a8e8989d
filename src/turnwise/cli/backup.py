"""`turnwise backup` and `turnwise restore`: copy the stores of an app into one archive, and back."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli.options import ConfigOption


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(short_help="Copy the SQLite store and the artifacts into one archive.")(backup)
    app.command(short_help="Restore an archive into an empty place.")(restore)


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
    from datetime import UTC, datetime

    from turnwise.cli import terminal
    from turnwise.cli.options import open_app
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
    from turnwise.cli.options import open_app
    from turnwise.runner.backup import StoreBackup

    async with open_app(config) as turnwise:
        made = StoreBackup(turnwise.runner.store, turnwise.runner.artifacts)
        await asyncio.to_thread(made.restore, file)
    terminal.print_line(f"Restored the store from {file}.")
    if made.leaves_out_artifacts:
        terminal.print_note("The artifacts are not in a folder. Restore them to their place, too.")
