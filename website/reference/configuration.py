"""The keys of turnwise.yaml, from its JSON schema."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from reference import plain, table
from turnwise.config import schema as config_schema

Schema = dict[str, Any]


@cache
def file_schema() -> Schema:
    """Returns the schema of the file."""
    return config_schema.file_schema()


def page() -> str:
    """Returns the keys of the file, then those of each section."""
    schema = file_schema()
    return "\n".join(_sections(schema))


def _sections(schema: Schema) -> Iterator[str]:
    yield "\n## Top level\n"
    yield _keys(schema)
    for name, definition in sorted(schema["definitions"].items(), key=lambda each: each[0].strip("_").lower()):
        section = _section(definition)
        if section.get("properties"):
            yield f"\n### {_title(name)} {{ #{_anchor(name)} }}\n"
            yield f"{plain(section.get('description', ''))}\n"
            yield _keys(section)


def _section(definition: Schema) -> Schema:
    return next((each for each in [definition, *definition.get("anyOf", [])] if "properties" in each), {})


def _keys(section: Schema) -> str:
    required = section.get("required", [])
    rows = (
        (
            f"`{key}`{' (required)' if key in required else ''}",
            plain(each.get("description", "")),
            _kind(each),
            f"`{each['default']}`" if each.get("default") not in (None, "", [], {}) else "",
        )
        for key, each in section["properties"].items()
    )
    return table(("key", "meaning", "type", "default"), rows)


def _kind(schema: Schema) -> str:
    if reference := schema.get("$ref", "").rpartition("/")[2]:
        definition = file_schema()["definitions"][reference]
        if _section(definition).get("properties"):
            return f"[{_title(reference)}](#{_anchor(reference)})"
        return "any" if "$ref" in json.dumps(definition) else _kind(definition) if "properties" not in definition else "empty"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    options = schema.get("anyOf") or schema.get("allOf")
    if options:
        kinds = [_kind(each) for each in options if each.get("pattern") != r"\$\{"]
        return " or ".join(dict.fromkeys(each for each in kinds if each != "null"))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    kinds = schema.get("type", "any")
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)


def _title(name: str) -> str:
    return name.strip("_")


def _anchor(name: str) -> str:
    return f"section-{_title(name).lower()}"
