"""Reads and writes definitions as data and as YAML files, with errors for their authors, and checks their sizes."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import JsonValue, ValidationError

from turnwise.config.document import display_path, read_document
from turnwise.config.validation import mistakes
from turnwise.facts.errors import AgentDefinitionError, DefinitionInvalid, PatternError, TurnwiseError
from turnwise.matching.patterns import PatternIndex
from turnwise.ports.definitions import (
    AnyDefinition,
    Definition,
    DefinitionKind,
    MadeByModel,
    MadeOfTemplates,
    MadeSomehow,
    PolicyDefinition,
    Versioned,
)

DESCRIPTION_CHARACTERS = 20_000
INSTRUCTION_CHARACTERS = 200_000
EXAMPLES = 100_000
EXAMPLE_CHARACTERS = 2_000
PATTERNS = 10_000
TEMPLATES = 1_000
TAGS = 1_000
BYTES = 16 * 1024 * 1024
"""The most bytes of a definition as JSON."""
NOTE_CHARACTERS = 2_000
READ_ONLY = frozenset({"version", "revision", "author", "created_at"})
"""Keys that a definition has when it is read. They are ignored when it is written."""

_TYPES: Mapping[DefinitionKind, type[Definition] | type[PolicyDefinition]] = {"agent": Definition, "policy": PolicyDefinition}
_FORMS = "Write `{use: NAME}`, `{kind: llm, model: NAME}`, `{kind: reply, templates: …}` or `{remote: URL}`."


def read_definition(what: DefinitionKind, data: Mapping[str, Any]) -> AnyDefinition:
    """Reads a definition from plain data: the keys of its content, and optionally `status` and `note`.

    Raises:
        DefinitionInvalid: It has mistakes; all are listed.
    """
    model, written = _TYPES[what], {key: value for key, value in data.items() if key not in READ_ONLY}
    named = f"The definition {data['name']!r}" if isinstance(data.get("name"), str) else "The definition"
    try:
        text = json.dumps(written, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise DefinitionInvalid(f"{named} is no JSON value.", fix="Leave out what JSON cannot hold.") from None
    if len(text) > BYTES:
        raise DefinitionInvalid(f"{named} has {len(text):,} bytes, at most {BYTES:,} are allowed.", fix="Make it smaller.")
    try:
        definition = model.model_validate_json(text, strict=True, extra="allow")
    except ValidationError as error:
        found = mistakes(error, model, written)
        raise invalid([AgentDefinitionError(f"{named}: {each.problem}", fix=each.fix) for each in found]) from None
    problems = [*_unknown_fields(named, definition), *size_mistakes(definition)]
    if problems:
        raise invalid(problems)
    return definition


def invalid(problems: list[Any]) -> DefinitionInvalid:
    """Returns one error for several: with the first one's message, and all of them in `problems`."""
    first = problems[0]
    more = f" (Mistakes in all: {len(problems)}.)" if len(problems) > 1 else ""
    return DefinitionInvalid(first.problem, fix=f"{first.fix}{more}".strip(), problems=problems)


def written_definition(definition: AnyDefinition) -> dict[str, JsonValue]:
    """Returns a definition as people write it: `read_definition` reads it without loss."""
    written = definition.model_dump(
        mode="json", exclude_defaults=True, exclude={*Versioned.model_fields} - {"name", "status", "note"}
    )
    return {"name": definition.name, **{key: value for key, value in written.items() if key != "name"}}


def _unknown_fields(named: str, definition: AnyDefinition) -> Iterator[TurnwiseError]:
    if isinstance(definition, Definition) and isinstance(definition.made_by, MadeSomehow):
        yield AgentDefinitionError(f"{named}: 'made_by' has no known form.", fix=_FORMS)
        return
    for path in definition.unknown_fields:
        yield AgentDefinitionError(f"{named} has no key {path!r}.", fix="Correct it, or leave it out.")


def size_mistakes(definition: AnyDefinition) -> Iterator[TurnwiseError]:
    """Yields what is too large, and each pattern that RE2 refuses."""
    if len(definition.note) > NOTE_CHARACTERS:
        yield _too_much(definition.name, "its note", len(definition.note), NOTE_CHARACTERS, "characters")
    if isinstance(definition, PolicyDefinition):
        return
    for what, size, most, unit in _sizes(definition):
        if size > most:
            yield _too_much(definition.name, what, size, most, unit)
    for pattern in definition.patterns or ():
        try:
            PatternIndex([(definition.name, pattern.regex, pattern.confidence)])
        except PatternError as error:
            yield error


def _sizes(definition: Definition) -> Iterator[tuple[str, int, int, str]]:
    """Yields what is limited in a definition, with its size and limit."""
    of_skills = [example for skill in definition.skills or () for example in skill.examples]
    learned = [each.text for each in definition.learned or ()]
    examples = [*(definition.examples or ()), *learned, *of_skills]
    made = definition.made_by
    yield "its description", len(definition.description or ""), DESCRIPTION_CHARACTERS, "characters"
    yield "its `not_for`", len(definition.not_for or ""), DESCRIPTION_CHARACTERS, "characters"
    yield "it", len(examples), EXAMPLES, "examples"
    yield "an example", max(map(len, examples), default=0), EXAMPLE_CHARACTERS, "characters"
    yield "it", len(definition.patterns or ()), PATTERNS, "patterns"
    yield "it", len(definition.skills or ()), PATTERNS, "skills"
    yield "it", len(definition.tags or ()) + len(definition.roles or ()), TAGS, "tags and roles"
    if isinstance(made, MadeByModel):
        yield "its instructions", len(made.instructions), INSTRUCTION_CHARACTERS, "characters"
    if isinstance(made, MadeOfTemplates):
        yield "it", len(made.templates) + len(made.slots), TEMPLATES, "templates and slots"


def _too_much(name: str, what: str, size: int, most: int, unit: str) -> AgentDefinitionError:
    whose = f"The definition {name!r}" if what == "it" else f"The definition {name!r}: {what}"
    return AgentDefinitionError(f"{whose} has {size:,} {unit}, at most {most:,} are allowed.", fix="Make it smaller.")


_SECTIONS: dict[str, DefinitionKind] = {"agents": "agent", "policies": "policy"}
FILE_SCALE = 16
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
    document = read_document(path, expand=False, scale=FILE_SCALE, fix="Write `agents:` with a list of definitions.")
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
                found.append(_read_item(_SECTIONS[key], item))
            except DefinitionInvalid as error:
                problems += [DefinitionInvalid(f"{place}:{mark.line}: {each.problem}", fix=each.fix) for each in error.problems]
    names = [(each.what, each.name) for each in found]
    problems += [
        DefinitionInvalid(f"{place} has two definitions of the {what} {name!r}.", fix="Remove one of them.")
        for what, name in dict.fromkeys(names)
        if names.count((what, name)) > 1
    ]
    if problems:
        raise invalid(problems)
    return found


def _read_item(what: DefinitionKind, item: Any) -> AnyDefinition:
    if not isinstance(item, dict):
        raise DefinitionInvalid("A definition is keys and values.", fix="Write `- name: …` and what is defined.")
    return read_definition(what, item)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Only double quotes keep characters that cannot be seen: YAML reads some of them as line breaks.
    is_plain = text.replace("\n", "").isprintable()
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if not is_plain else "|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
