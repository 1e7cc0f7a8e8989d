"""`turnwise users`: exports the data of users."""

import asyncio
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import ConfigOption

if TYPE_CHECKING:
    from turnwise.runner import Runner

app = typer.Typer(help="Export the data of users.", rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def users() -> None:
    """Export the data of users."""


@app.command(short_help="Write all data of a user into a ZIP archive.")
def export(
    user: Annotated[str, typer.Argument(metavar="USER", help="The user.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The archive; by default USER.zip here.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Write sessions, events, decisions, labels, artifacts and state of a user into one ZIP archive."""
    file = output or Path(f"{re.sub(r'[^A-Za-z0-9._@-]', '_', user).lstrip('.') or 'user'}.zip")
    if file.exists():
        raise typer.BadParameter(f"{file} exists. Name another file.", param_hint="'--output'")
    asyncio.run(_export(config, user, file))


async def _export(config: Path | None, user: str, output: Path) -> None:
    """Writes the user's data to a file."""
    from turnwise.cli import terminal
    from turnwise.cli.options import open_app

    async with open_app(config) as turnwise:
        await _write(turnwise.runner, user, output)
    terminal.print_line(f"Exported the data of {user} to {output}.")


async def _write(runner: "Runner", user: str, output: Path) -> None:
    """Writes the archive under another name, and renames it when it is complete."""
    from datetime import UTC, datetime

    from turnwise.cli.options import ACTOR
    from turnwise.ports.audit import Act
    from turnwise.ports.holds import RecordStore
    from turnwise.runner.user_export import UserExport

    key = runner.key(user, "-")
    part = output.with_name(f"{output.name}.part")
    try:
        with part.open("wb") as file:
            if isinstance(runner.store, RecordStore):
                await runner.store.audit.record(runner.app, Act(ACTOR, "user.exported", key.user))
            async for piece in UserExport(runner.store, runner.artifacts, runner.app, key.user).chunks(datetime.now(UTC)):
                file.write(piece)
        os.replace(part, output)
    finally:
        part.unlink(missing_ok=True)
