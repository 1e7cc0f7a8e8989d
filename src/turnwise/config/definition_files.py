"""Definitions as a YAML file: written and read without loss."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from turnwise.config.definition_documents import invalid, read_definition, written_definition
from turnwise.config.document import display_path
from turnwise.config.yaml_reader import read_document
from turnwise.facts.errors import DefinitionInvalid, TurnwiseError
from turnwise.ports.definitions import AnyDefinition, Definition, DefinitionKind

_SECTIONS: dict[str, DefinitionKind] = {"agents": "agent", "policies": "policy"}
SCALE = 16
"""How much larger than a configuration file a file of definitions may be."""


def definitions_text(definitions: Iterable[AnyDefinition]) -> str:
    """Returns definitions as YAML: agents and policies, each under its own key."""
    known = [*definitions]
    agents = [written_definition(each) for each in known if isinstance(each, Definition)]
    policies = [written_definition(each) for each in known if not isinstance(each, Definition)]
    data = {"agents": agents, **({"policies": policies} if policies else {})}
    text: str = yaml.dump(data, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=120)
    return text


def read_definitions_file(path: Path) -> list[AnyDefinition]:
    """Reads a file of definitions. References to variables stay as they are written.

    Raises:
        ConfigError: It is no YAML.
        DefinitionInvalid: It has mistakes; all are listed.
    """
    document = read_document(path, expand=False, scale=SCALE, fix="Write `agents:` with a list of definitions.")
    place = display_path(path)
    problems: list[TurnwiseError] = [*document.problems]
    found: list[AnyDefinition] = []
    for key, value in document.data.items():
        if key not in _SECTIONS:
            problems.append(DefinitionInvalid(f"{place} has the unknown key {key!r}.", fix=f"Known: {', '.join(_SECTIONS)}."))
            continue
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            mark = document.mark((key, index))
            try:
                found.append(_read(_SECTIONS[key], item))
            except DefinitionInvalid as error:
                problems += [DefinitionInvalid(f"{place}:{mark.line}: {each.problem}", fix=each.fix) for each in _each(error)]
    names = [(each.what, each.name) for each in found]
    problems += [
        DefinitionInvalid(f"{place} has two definitions of the {what} {name!r}.", fix="Remove one of them.")
        for what, name in dict.fromkeys(names)
        if names.count((what, name)) > 1
    ]
    if problems:
        raise invalid(problems)
    return found


def _read(what: DefinitionKind, item: Any) -> AnyDefinition:
    if not isinstance(item, dict):
        raise DefinitionInvalid("A definition is keys and values.", fix="Write `- name: …` and what is defined.")
    return read_definition(what, item)


def _each(error: DefinitionInvalid) -> Iterable[TurnwiseError]:
    return error.problems


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Only double quotes keep characters that cannot be seen: YAML reads some of them as line breaks.
    is_plain = text.replace("\n", "").isprintable()
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if not is_plain else "|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
