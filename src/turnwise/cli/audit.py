"""`turnwise audit`: reads the audit log."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import ConfigOption, JsonOption, open_records

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer(help="Read the audit log.", rich_markup_mode=None, no_args_is_help=True)


@app.command("list")
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
    asyncio.run(_list(config, user, action, limit, after, as_json))


async def _list(
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
