"""`turnwise agents`: shows and changes the definitions of agents and policies in the database."""

import asyncio
import getpass
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import agents_try
from turnwise.cli.exits import FAILED, UsageProblem
from turnwise.cli.options import (
    ConfigOption,
    DefinitionArgument,
    ExpectOption,
    IsPolicyOption,
    JsonOption,
    MaxOption,
    MinOption,
    NoteOption,
    VersionArgument,
    kind_of,
    open_editor,
)

if TYPE_CHECKING:
    from turnwise.config.definition_editor import DefinitionEditor
    from turnwise.ports.definitions import AnyDefinition, Author, DefinitionKind, Definitions

app = typer.Typer(
    help="Show and change the definitions of agents and policies in the database.", rich_markup_mode=None, no_args_is_help=True
)


@app.command("list")
def list_definitions(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the newest version of each definition."""

    async def work(editor: "DefinitionEditor") -> None:
        from turnwise.cli import agents_output

        found = [each for what in agents_output.KINDS for each in await _all_of(editor.store, editor.app, what)]
        agents_output.print_definitions(found, await editor.store.revision(editor.app), as_json=as_json)

    _run(config, work)


@app.command()
def show(
    name: DefinitionArgument,
    version: VersionArgument = None,
    config: ConfigOption = None,
    policy: IsPolicyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show a version of a definition."""

    async def work(editor: "DefinitionEditor") -> None:
        from turnwise.cli import agents_output

        agents_output.print_definition(await editor.version(kind_of(policy), name, version), as_json=as_json)

    _run(config, work)


@app.command()
def history(
    name: DefinitionArgument, config: ConfigOption = None, policy: IsPolicyOption = False, as_json: JsonOption = False
) -> None:
    """List the versions of a definition, newest first."""

    async def work(editor: "DefinitionEditor") -> None:
        from turnwise.cli import agents_output

        await editor.version(kind_of(policy), name)
        page = await editor.store.history(editor.app, kind_of(policy), name, limit=1000)
        agents_output.print_history(page.items, as_json=as_json)

    _run(config, work)


@app.command()
def diff(
    name: DefinitionArgument,
    old: Annotated[int, typer.Argument(metavar="OLD", min=1, help="The older version.")],
    new: Annotated[int | None, typer.Argument(metavar="NEW", min=1, help="By default the newest version.")] = None,
    config: ConfigOption = None,
    policy: IsPolicyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what differs between two versions."""

    async def work(editor: "DefinitionEditor") -> None:
        from turnwise.cli import agents_output
        from turnwise.ports.definitions import differences

        before, after = await editor.version(kind_of(policy), name, old), await editor.version(kind_of(policy), name, new)
        agents_output.print_differences(differences(before, after), as_json=as_json)

    _run(config, work)


@app.command("set")
def set_fields(
    name: DefinitionArgument,
    fields: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE", help="A field and its value as YAML; `KEY=` takes the field out.")
    ],
    config: ConfigOption = None,
    policy: IsPolicyOption = False,
    draft: Annotated[bool, typer.Option("--draft", help="Store it as a draft, which does not serve.")] = False,
    note: NoteOption = "",
    expect: ExpectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change fields of a definition, or begin a new one: turnwise agents set billing 'description=Invoices and payments'."""
    changes = dict(_field(each) for each in fields)

    def change(written: dict[str, Any]) -> dict[str, Any]:
        merged = {**written, **changes, "status": "draft" if draft else "active"}
        return {key: value for key, value in merged.items() if value is not _ABSENT}

    _run(config, lambda editor: _change(editor, kind_of(policy), name, change, note, expect, as_json))


@app.command()
def add_example(
    name: DefinitionArgument,
    examples: Annotated[list[str], typer.Argument(metavar="TEXT", help="A request that the agent answers.")],
    config: ConfigOption = None,
    note: NoteOption = "",
    expect: ExpectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add examples to an agent, after those that it has."""
    _extend(config, name, "examples", examples, note, expect, as_json)


@app.command()
def add_pattern(
    name: DefinitionArgument,
    regex: Annotated[str, typer.Argument(metavar="REGEX", help="An RE2 expression.")],
    confidence: Annotated[float, typer.Option("--confidence", metavar="C", min=0.0, max=1.0, help="From 0 to 1.")] = 0.8,
    config: ConfigOption = None,
    note: NoteOption = "",
    expect: ExpectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a pattern to an agent, after those that it has."""
    _extend(config, name, "patterns", [{"regex": regex, "confidence": confidence}], note, expect, as_json)


@app.command()
def enable(name: DefinitionArgument, config: ConfigOption = None, note: NoteOption = "", as_json: JsonOption = False) -> None:
    """Let an agent get messages again."""
    _run(config, lambda editor: _switch(editor, name, note, as_json, enabled=True))


@app.command()
def disable(name: DefinitionArgument, config: ConfigOption = None, note: NoteOption = "", as_json: JsonOption = False) -> None:
    """Take an agent out of every decision, until it is enabled."""
    _run(config, lambda editor: _switch(editor, name, note, as_json, enabled=False))


@app.command()
def activate(
    name: DefinitionArgument,
    version: VersionArgument = None,
    config: ConfigOption = None,
    policy: IsPolicyOption = False,
    note: NoteOption = "",
    expect: ExpectOption = None,
    as_json: JsonOption = False,
    at_least: MinOption = None,
    at_most: MaxOption = None,
) -> None:
    """Serve a version, such as a draft, as a new version. With --min or --max, only if a trial keeps the bounds."""
    gates = agents_try.trial_gates(at_least, at_most)

    async def work() -> bool:
        async with open_editor(config, serve=bool(gates)) as (app_, editor):
            seen, newest = await _expected_versions(editor, kind_of(policy), name, expect)
            wanted = newest if version is None else version
            if gates:
                tried = await editor.version(kind_of(policy), name, wanted)
                if agents_try.print_missed(await agents_try.run_trial(app_, editor, tried), gates):
                    return False
            _print_stored(await editor.activate(kind_of(policy), name, wanted, seen, author(note)), as_json)
            return True

    if not asyncio.run(work()):
        raise typer.Exit(FAILED)


@app.command()
def rollback(
    name: DefinitionArgument,
    version: Annotated[
        int | None, typer.Argument(metavar="VERSION", min=1, help="By default the one that served before.")
    ] = None,
    config: ConfigOption = None,
    policy: IsPolicyOption = False,
    note: NoteOption = "",
    expect: ExpectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go back to an earlier version: its content serves again as a new version."""

    async def work(editor: "DefinitionEditor") -> None:
        seen, _ = await _expected_versions(editor, kind_of(policy), name, expect)
        earlier = await editor.previous(kind_of(policy), name) if version is None else version
        _print_stored(await editor.activate(kind_of(policy), name, earlier, seen, author(note)), as_json)

    _run(config, work)


@app.command()
def retire(
    name: DefinitionArgument,
    config: ConfigOption = None,
    policy: IsPolicyOption = False,
    note: NoteOption = "",
    expect: ExpectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a definition out of service. An agent in code is then as in code; another one is gone."""

    async def work(editor: "DefinitionEditor") -> None:
        seen, _ = await _expected_versions(editor, kind_of(policy), name, expect)
        _print_stored(await editor.retire(kind_of(policy), name, seen, author(note)), as_json)

    _run(config, work)


agents_try.register(app)


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A YAML file of definitions, as `export` writes it.")],
    config: ConfigOption = None,
    note: NoteOption = "",
    as_json: JsonOption = False,
) -> None:
    """Store all definitions of a file, in one change. Those that are the same already stay as they are."""

    async def work(editor: "DefinitionEditor") -> None:
        from turnwise.cli import agents_output
        from turnwise.config.definition_documents import read_definitions_file

        read = await asyncio.to_thread(read_definitions_file, file)
        newest = {(each.what, each.name): await editor.store.get(editor.app, each.what, each.name) for each in read}
        changed = [each for each in read if not _is_same(newest[each.what, each.name], each)]
        expected = {key: each.version for key, each in newest.items() if each is not None}
        stored = await editor.put(changed, expected, author(note or f"Imported from {file.name}."))
        agents_output.print_imported(stored, len(read) - len(changed), as_json=as_json)

    _run(config, work)


@app.command("export")
def export_file(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="By default standard output.")] = None,
    config: ConfigOption = None,
) -> None:
    """Write the newest version of each definition as YAML. Retired ones are left out."""

    async def work(editor: "DefinitionEditor") -> None:
        from turnwise.cli import agents_output, terminal
        from turnwise.config.definition_documents import definitions_text

        found = [each for what in agents_output.KINDS for each in await _all_of(editor.store, editor.app, what)]
        text = definitions_text(each for each in found if each.status != "retired")
        if file is None:
            terminal.write(text)
        else:
            await asyncio.to_thread(file.write_text, text, "utf-8")

    _run(config, work)


class _Absent:
    """The value of a field that is taken out."""


_ABSENT = _Absent()


def _run(config: Path | None, work: Callable[["DefinitionEditor"], Any]) -> None:
    async def opened() -> None:
        async with open_editor(config) as (_, editor):
            await work(editor)

    asyncio.run(opened())


async def _expected_versions(
    editor: "DefinitionEditor", what: "DefinitionKind", name: str, expect: int | None
) -> tuple[int, int]:
    """Returns the version that has to be the newest one, and the newest one. Raises DefinitionMissing."""
    newest = (await editor.version(what, name)).version
    return newest if expect is None else expect, newest


def author(note: str) -> "Author":
    """Returns the person at this terminal as the author of a change made now."""
    from turnwise.ports.definitions import Author

    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = "unknown"
    return Author(f"cli:{user}", datetime.now(UTC), note)


def _field(text: str) -> tuple[str, Any]:
    """Parses KEY=VALUE; an empty value removes the key. Raises UsageProblem."""
    import yaml

    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageProblem(f"{text[:40]!r} is no field with a value.", fix="Write KEY=VALUE, such as enabled=false.")
    if not value.strip():
        return key, _ABSENT
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise UsageProblem(f"The value of {key!r} is no YAML: {error}.", fix="Quote it, or write it as JSON.") from None


async def _all_of(store: "Definitions", app_name: str, what: "DefinitionKind") -> "list[AnyDefinition]":
    """Returns all definitions of one kind, page after page."""
    found: list[AnyDefinition] = []
    cursor = None
    while True:
        page = await store.list(app_name, what, after=cursor, limit=1000)
        found += page.items
        cursor = page.next
        if cursor is None:
            return found


async def _change(
    editor: "DefinitionEditor",
    what: "DefinitionKind",
    name: str,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    note: str,
    expect: int | None,
    as_json: bool,
) -> None:
    """Applies a change to the newest version of a definition and stores the result as the next version."""
    from turnwise.config.definition_documents import read_definition, written_definition

    newest = await editor.store.get(editor.app, what, name)
    written = written_definition(newest) if newest is not None else {"name": name}
    written.pop("note", None)
    new = read_definition(what, change(written))
    seen = expect if expect is not None else newest.version if newest else 0
    (stored,) = await editor.put([new], {(what, name): seen}, author(note))
    _print_stored(stored, as_json)


async def _switch(editor: "DefinitionEditor", name: str, note: str, as_json: bool, *, enabled: bool) -> None:
    await _change(editor, "agent", name, lambda written: {**written, "enabled": enabled}, note, None, as_json)


def _extend(
    config: Path | None, name: str, key: str, more: Sequence[Any], note: str, expect: int | None, as_json: bool
) -> None:
    """Appends values to a list field of an agent's definition. The first definition of an agent in code copies its card."""

    async def work(editor: "DefinitionEditor") -> None:
        def change(written: dict[str, Any]) -> dict[str, Any]:
            known = written.get(key)
            if known is None and name in editor.agents.tree:
                known = editor.agents.tree.card(name).model_dump(mode="json")[key]
            return {**written, key: [*(known or ()), *more]}

        await _change(editor, "agent", name, change, note, expect, as_json)

    _run(config, work)


def _is_same(newest: "AnyDefinition | None", new: "AnyDefinition") -> bool:
    return newest is not None and (newest.content, newest.status) == (new.content, new.status)


def _print_stored(stored: "AnyDefinition", as_json: bool) -> None:
    from turnwise.cli import agents_output

    agents_output.print_stored(stored, as_json=as_json)
