"""`turnwise holds`: manages legal holds."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import ACTOR, ConfigOption, JsonOption, open_records

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer(help="Add, list and remove legal holds.", rich_markup_mode=None, no_args_is_help=True)


@app.command(short_help="Prevent the deletion of a user's data.")
def add(
    user: Annotated[str, typer.Option("--user", "-u", metavar="USER", help="The user.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; users do not see it.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a legal hold: while it exists, erasure and retention spare the user's data."""
    asyncio.run(_add(config, user, reason, as_json))


async def _add(config: "Path | None", user: str, reason: str, as_json: bool) -> None:
    """Stores a legal hold and prints it."""
    from turnwise.cli import terminal
    from turnwise.facts.ids import SystemIssuer
    from turnwise.ports.holds import Hold

    hold = Hold(id=SystemIssuer().new_id("hold"), user=user, author=ACTOR, at=datetime.now(UTC), reason=reason)
    async with open_records(config) as records:
        await records.store.holds.add(records.app, hold)
    if as_json:
        terminal.print_json(hold.model_dump(mode="json"))
    else:
        terminal.print_line(f"Hold {hold.id} is on the data of {user}.")


@app.command("list")
def list_holds(
    config: ConfigOption = None,
    user: Annotated[str | None, typer.Option("--user", "-u", metavar="USER", help="Only holds of this user.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List legal holds, oldest first."""
    asyncio.run(_list(config, user, as_json))


async def _list(config: "Path | None", user: str | None, as_json: bool) -> None:
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


@app.command()
def remove(
    hold: Annotated[str, typer.Argument(metavar="ID", help="The hold's id.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a legal hold."""
    asyncio.run(_remove(config, hold, as_json))


async def _remove(config: "Path | None", id_: str, as_json: bool) -> None:
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
