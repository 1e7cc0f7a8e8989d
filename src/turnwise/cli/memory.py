"""`turnwise memory`: lists, searches, adds, forgets and exports what is remembered of users."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli.exits import UsageProblem
from turnwise.cli.options import DEFAULT_USER, ConfigOption, JsonOption

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from turnwise.facts.memory import MemoryEntry
    from turnwise.runner import Runner

PAGE = 200

app = typer.Typer(help="List, search, add, forget and export what is remembered.", rich_markup_mode=None, no_args_is_help=True)

UserOption = Annotated[str, typer.Option("--user", "-u", metavar="USER", help="Whose memory.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many entries.")]
SessionOption = Annotated[str | None, typer.Option("--session", "-s", metavar="ID", help="Only entries of this session.")]


@app.command("list")
def list_memories(
    config: ConfigOption = None,
    user: UserOption = DEFAULT_USER,
    session: SessionOption = None,
    kind: Annotated[str | None, typer.Option("--kind", metavar="KIND", help="fact, entity, message or summary.")] = None,
    superseded: Annotated[bool, typer.Option("--superseded", help="Also entries that others replace.")] = False,
    limit: LimitOption = 50,
    after: Annotated[
        str | None, typer.Option("--after", metavar="CURSOR", help="Continue where the previous page ended.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List what is remembered of a user, newest first."""
    asyncio.run(_list(config, user, session, kind, after, limit, superseded=superseded, as_json=as_json))


async def _list(
    config: "Path | None",
    user: str,
    session: str | None,
    kind: str | None,
    after: str | None,
    limit: int,
    *,
    superseded: bool,
    as_json: bool,
) -> None:
    """Prints a page of the user's entries."""
    from turnwise.cli import terminal
    from turnwise.cli.options import open_app
    from turnwise.ports.memory import MemoryFilter

    filter_ = MemoryFilter(kinds=_kinds(kind), session=session)
    async with open_app(config) as turnwise:
        runner = turnwise.runner
        page = await runner.memory.store.recent(
            runner.app, user, filter=filter_, superseded=superseded, after=after, limit=limit
        )
    if as_json:
        terminal.print_json({"memories": [_data(entry) for entry in page.items], "next": page.next})
        return
    if not page.items:
        terminal.print_note(f"Nothing is remembered of user {user}{' after that' if after else ''}.")
    for entry in page.items:
        terminal.print_lines(_lines(entry))
    if page.next is not None:
        terminal.print_note(f"There are more: --after {page.next}")


@app.command()
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words, or a question.")],
    config: ConfigOption = None,
    user: UserOption = DEFAULT_USER,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="How many entries.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Search what is remembered of a user, by words and by meaning."""
    asyncio.run(_search(config, user, query, limit, as_json=as_json))


async def _search(config: "Path | None", user: str, query: str, limit: int, *, as_json: bool) -> None:
    """Prints the entries nearest to the query, with score and reason."""
    from turnwise.cli import terminal
    from turnwise.cli.options import open_app

    async with open_app(config) as turnwise:
        runner = turnwise.runner
        vector = await runner.memory.vector(query)
        found = await runner.memory.store.search(runner.app, user, query, vector=vector, limit=limit)
    if as_json:
        shown = [{"score": each.score, "reason": each.reason, "memory": _data(each.entry)} for each in found]
        terminal.print_json({"found": shown})
        return
    if not found:
        terminal.print_note(f"Nothing that is remembered of user {user} fits.")
    for each in found:
        terminal.print_lines(_lines(each.entry, f"{each.score:.2f}: {each.reason}"))


@app.command()
def add(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember.")],
    config: ConfigOption = None,
    user: UserOption = DEFAULT_USER,
    span: Annotated[str, typer.Option("--span", metavar="SPAN", help="working, short or long.")] = "long",
    id_: Annotated[str | None, typer.Option("--id", metavar="ID", help="The same id again changes nothing.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Add an entry to a user's memory, as said by an operator."""
    asyncio.run(_add(config, user, text, span, id_, as_json=as_json))


async def _add(config: "Path | None", user: str, text: str, span: str, id_: str | None, *, as_json: bool) -> None:
    """Stores an entry of the operator."""
    from turnwise.cli import terminal
    from turnwise.cli.options import open_app
    from turnwise.facts.ids import SystemIssuer
    from turnwise.facts.memory import new_entry

    issuer = SystemIssuer()
    entry = new_entry(id=id_ or issuer.new_id("memory"), text=text, span=span, said_by="operator", created_at=issuer.now())
    async with open_app(config) as turnwise:
        runner = turnwise.runner
        (stored,) = await runner.memory.add(user, [entry])
        await runner.memory.idle()
    if as_json:
        terminal.print_json(_data(stored))
    elif stored.text != entry.text:
        terminal.print_note(f"Nothing was changed: {stored.id} is remembered already, with another text.")
    else:
        terminal.print_note(f"Remembered as {stored.id}.")


@app.command()
def forget(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The entries.")] = None,
    config: ConfigOption = None,
    user: UserOption = DEFAULT_USER,
    session: SessionOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Forget all of the user.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Forget entries, those of a session, or all of a user. Their texts are overwritten in recorded steps, too."""
    if sum((bool(ids), session is not None, everything)) != 1:
        raise UsageProblem("Name what to forget: ids, --session ID, or --all.")
    asyncio.run(_forget(config, user, ids or None, session, as_json=as_json))


async def _forget(config: "Path | None", user: str, ids: list[str] | None, session: str | None, *, as_json: bool) -> None:
    """Deletes entries of the user, and prints how many."""
    from turnwise.cli import terminal
    from turnwise.cli.options import open_app

    async with open_app(config) as turnwise:
        runner = turnwise.runner
        count = await runner.memory.store.forget(runner.app, user, ids=ids, session=session)
    if as_json:
        terminal.print_json({"forgotten": count})
    elif ids and not count:
        terminal.print_note(f"Nothing was forgotten: the memory of user {user} has no entry of {' or '.join(ids)}.")
    else:
        terminal.print_note(f"Forgot {count} {'entry' if count == 1 else 'entries'} of user {user}.")


@app.command()
def export(config: ConfigOption = None, user: UserOption = DEFAULT_USER) -> None:
    """Print all that is remembered of a user, one JSON object a line, with entries that others replace."""
    asyncio.run(_export(config, user))


async def _export(config: "Path | None", user: str) -> None:
    """Prints all entries of the user as JSON lines."""
    from turnwise.cli import terminal
    from turnwise.cli.options import open_app

    async with open_app(config) as turnwise:
        async for entry in _all_entries(turnwise.runner, user):
            terminal.print_json(_data(entry))


async def _all_entries(runner: "Runner", user: str) -> "AsyncIterator[MemoryEntry]":
    """Yields all entries of the user, replaced ones included."""
    after: str | None = None
    while True:
        page = await runner.memory.store.recent(runner.app, user, superseded=True, after=after, limit=PAGE)
        for entry in page.items:
            yield entry
        after = page.next
        if after is None:
            return


def _kinds(kind: str | None) -> Any:
    from turnwise.facts.memory import KINDS

    if kind is not None and kind not in KINDS:
        raise UsageProblem(f"There is no kind {kind!r}: {', '.join(KINDS)}.")
    return None if kind is None else [kind]


def _data(entry: "MemoryEntry") -> dict[str, Any]:
    return entry.model_dump(mode="json", exclude_defaults=True) | {"kind": entry.kind, "span": entry.span}


def _lines(entry: "MemoryEntry", why: str = "") -> list[Any]:
    """The lines of one entry: its text, and a note on its source and life."""
    from turnwise.cli import terminal
    from turnwise.cli.rendering import styled, wrap

    whence = f", noted by {entry.agent}" if entry.agent else ""
    until = f", until {entry.expires_at:%Y-%m-%d %H:%M}" if entry.expires_at else ""
    note = f"{entry.id}  {entry.kind}, {entry.created_at:%Y-%m-%d %H:%M}, said by {entry.said_by}{whence}{until}  {why}"
    width = terminal.width()
    return [*wrap([styled(entry.text, "")], width), *wrap([styled(note.rstrip(), "dim")], width)]
