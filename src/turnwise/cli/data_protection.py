"""Data protection: `turnwise holds`, `turnwise audit` and `turnwise users`."""

import asyncio
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import ACTOR, ConfigOption, JsonOption, open_app, open_records

if TYPE_CHECKING:
    from turnwise.runner import Runner

holds_app = typer.Typer(help="Add, list and remove legal holds.", rich_markup_mode=None, no_args_is_help=True)


@holds_app.command("add", short_help="Prevent the deletion of a user's data.")
def add_hold(
    user: Annotated[str, typer.Option("--user", "-u", metavar="USER", help="The user.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; users do not see it.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a legal hold: while it exists, erasure and retention spare the user's data."""
    asyncio.run(_add_hold(config, user, reason, as_json))


async def _add_hold(config: "Path | None", user: str, reason: str, as_json: bool) -> None:
    """Stores a legal hold and prints it."""
    from turnwise.cli import terminal
    from turnwise.facts.ids import SystemIssuer
    from turnwise.ports.records import Hold

    hold = Hold(id=SystemIssuer().new_id("hold"), user=user, author=ACTOR, at=datetime.now(UTC), reason=reason)
    async with open_records(config) as records:
        await records.store.holds.add(records.app, hold)
    if as_json:
        terminal.print_json(hold.model_dump(mode="json"))
    else:
        terminal.print_line(f"Hold {hold.id} is on the data of {user}.")


@holds_app.command("list")
def list_holds(
    config: ConfigOption = None,
    user: Annotated[str | None, typer.Option("--user", "-u", metavar="USER", help="Only holds of this user.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List legal holds, oldest first."""
    asyncio.run(_list_holds(config, user, as_json))


async def _list_holds(config: "Path | None", user: str | None, as_json: bool) -> None:
    """Prints the legal holds."""
    from turnwise.cli import terminal

    async with open_records(config) as records:
        found = await records.store.holds.list(records.app, user=user)
    if as_json:
        terminal.print_json({"holds": [hold.model_dump(mode="json") for hold in found]})
    elif not found:
        terminal.print_note(f"There are no legal holds of {records.app}{f' and user {user}' if user else ''}.")
    for hold in () if as_json else found:
        terminal.print_line(f"{hold.id}  {hold.user}  {hold.at:%Y-%m-%d %H:%M}  {hold.author}  {hold.reason}")


@holds_app.command("remove")
def remove_hold(
    hold: Annotated[str, typer.Argument(metavar="ID", help="The hold's id.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a legal hold."""
    asyncio.run(_remove_hold(config, hold, as_json))


async def _remove_hold(config: "Path | None", id_: str, as_json: bool) -> None:
    """Removes a legal hold. Raises NothingHere for an unknown id."""
    from turnwise.cli import terminal
    from turnwise.facts.errors import NothingHere

    async with open_records(config) as records:
        if not await records.store.holds.remove(records.app, id_, actor=ACTOR):
            raise NothingHere(f"{records.app} has no legal hold {id_}.", fix="`turnwise holds list` shows their ids.")
    if as_json:
        terminal.print_json({"id": id_, "removed": True})
    else:
        terminal.print_line(f"Hold {id_} is removed.")


audit_app = typer.Typer(help="Read the audit log.", rich_markup_mode=None, no_args_is_help=True)


@audit_app.command("list")
def list_entries(
    config: ConfigOption = None,
    user: Annotated[str | None, typer.Option("--user", "-u", metavar="USER", help="Only acts on this user's data.")] = None,
    action: Annotated[str | None, typer.Option("--action", metavar="ACTION", help="Only this action: user.erased …")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many entries.")] = 50,
    after: Annotated[
        str | None, typer.Option("--after", metavar="CURSOR", help="Continue where the previous page ended.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List who did what to whose data, newest first."""
    asyncio.run(_list_entries(config, user, action, limit, after, as_json))


async def _list_entries(
    config: "Path | None", user: str | None, action: str | None, limit: int, after: str | None, as_json: bool
) -> None:
    """Prints a page of the audit log."""
    from turnwise.cli import terminal

    async with open_records(config) as records:
        page = await records.store.audit.list(records.app, user=user, action=action, after=after, limit=limit)
    if as_json:
        terminal.print_json({"entries": [entry.model_dump(mode="json") for entry in page.items], "next": page.next})
        return
    if not page.items:
        terminal.print_note(f"The audit log of {records.app} has no such entries.")
    for entry in page.items:
        concerned = " ".join(each for each in (entry.user, entry.session) if each)
        terminal.print_line(f"{entry.at:%Y-%m-%d %H:%M:%S}  {entry.actor or '-'}  {entry.action}  {concerned}".rstrip())
    if page.next is not None:
        terminal.print_note(f"There are more: --after {page.next}")


users_app = typer.Typer(help="Export the data of users.", rich_markup_mode=None, no_args_is_help=True)


@users_app.callback()
def users() -> None:
    """Export the data of users."""


@users_app.command("export", short_help="Write all data of a user into a ZIP archive.")
def export_user(
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
    asyncio.run(_export_user(config, user, file))


async def _export_user(config: Path | None, user: str, output: Path) -> None:
    """Writes the user's data to a file."""
    from turnwise.cli import terminal

    async with open_app(config) as turnwise:
        await _write_export(turnwise.runner, user, output)
    terminal.print_line(f"Exported the data of {user} to {output}.")


async def _write_export(runner: "Runner", user: str, output: Path) -> None:
    """Writes the archive under another name, and renames it when it is complete."""
    from turnwise.ports.records import Act, RecordStore
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
