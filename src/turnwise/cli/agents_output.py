"""Prints definitions: lists, versions, differences."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import yaml
from rich.text import Text

from turnwise.cli import rendering, terminal
from turnwise.cli.rendering import fit_table
from turnwise.config.definition_documents import written_definition
from turnwise.ports.definitions import AnyDefinition, DefinitionKind, FieldChange

KINDS: tuple[DefinitionKind, ...] = ("agent", "policy")


def print_definitions(found: Sequence[AnyDefinition], revision: int, *, as_json: bool) -> None:
    """Prints the newest version of each definition."""
    if as_json:
        terminal.print_json({"revision": revision, "definitions": [_data(each) for each in found]})
    elif not found:
        terminal.print_note("There are no definitions: all agents are as in code. Begin with: turnwise agents set NAME …")
    else:
        columns = ("", "name", "version", "status", "changed (UTC)", "by", "note")
        rows = [[each.what, each.name, *_version_cells(each)] for each in found]
        terminal.print_lines(fit_table(columns, _styled(rows, found), terminal.width()))


def print_history(versions: Sequence[AnyDefinition], *, as_json: bool) -> None:
    """Prints the versions of one definition."""
    if as_json:
        terminal.print_json({"versions": [_data(each) for each in versions]})
        return
    columns = ("version", "status", "changed (UTC)", "by", "note")
    rows = [_version_cells(each) for each in versions]
    terminal.print_lines(fit_table(columns, _styled(rows, versions), terminal.width()))


def print_definition(definition: AnyDefinition, *, as_json: bool) -> None:
    """Prints one version with its content."""
    if as_json:
        terminal.print_json(_data(definition))
        return
    by = f" by {definition.author}" if definition.author else ""
    note = f": {definition.note}" if definition.note else ""
    terminal.print_note(f"version {definition.version}, {definition.status}, {_minute(definition.created_at)} UTC{by}{note}")
    content = {key: value for key, value in written_definition(definition).items() if key not in ("status", "note")}
    terminal.print_line(yaml.safe_dump(content, allow_unicode=True, sort_keys=False).rstrip())
    if definition.unknown_fields:
        fields = ", ".join(definition.unknown_fields)
        terminal.print_note(f"A newer Turnwise wrote it. This one does not serve it, because of: {fields}", "yellow")


def print_differences(changes: Iterable[FieldChange], *, as_json: bool) -> None:
    """Prints what differs between two versions."""
    found = [*changes]
    if as_json:
        terminal.print_json({"changes": [each.model_dump(mode="json") for each in found]})
        return
    if not found:
        terminal.print_note("They are the same.")
    for each in found:
        terminal.print_line(f"{each.path}:")
        terminal.print_line(f"  - {terminal.one_line(str(each.before))}", "red")
        terminal.print_line(f"  + {terminal.one_line(str(each.after))}", "green")


def print_stored(stored: AnyDefinition, *, as_json: bool) -> None:
    """Prints that a version was stored."""
    if as_json:
        terminal.print_json(_data(stored))
    else:
        terminal.print_line(
            f"{stored.what} {stored.name}: version {stored.version}, {stored.status}, revision {stored.revision}"
        )


def print_imported(stored: Sequence[AnyDefinition], same: int, *, as_json: bool) -> None:
    """Prints what an import stored."""
    if as_json:
        terminal.print_json({"stored": [_data(each) for each in stored], "unchanged": same})
        return
    for each in stored:
        print_stored(each, as_json=False)
    terminal.print_note(f"{len(stored)} stored, {same} unchanged.")


def _version_cells(each: AnyDefinition) -> list[str]:
    """Returns the cells of one version in the table of versions."""
    return [
        str(each.version),
        f"{each.status} (newer)" if each.unknown_fields else each.status,
        _minute(each.created_at),
        terminal.one_line(each.author),
        terminal.one_line(each.note),
    ]


def _styled(rows: Sequence[Sequence[str]], found: Sequence[AnyDefinition]) -> list[list[Text]]:
    styles = ["" if each.status == "active" else "dim" for each in found]
    return [[rendering.styled(cell, style) for cell in row] for row, style in zip(rows, styles, strict=True)]


def _minute(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def _data(definition: AnyDefinition) -> dict[str, object]:
    return {"kind": definition.what, **definition.model_dump(mode="json")}
