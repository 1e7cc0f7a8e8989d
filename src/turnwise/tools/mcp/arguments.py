"""Whether arguments fit the JSON schema that a server gave for them."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from turnwise.facts.errors import ToolFailed
from turnwise.tools.mcp.patterns import of_one_dialect, with_safe_patterns

PROBLEMS_SHOWN = 5
WORDS_CHARACTERS = 200


def check_arguments(schema: Mapping[str, Any], arguments: Mapping[str, JsonValue]) -> None:
    """ToolFailed says what does not fit, and where. A schema that cannot be used lets everything through: the server checks
    for itself; so does a pattern that RE2 cannot read. No pattern takes longer than its text is long."""
    from jsonschema import SchemaError
    from jsonschema.exceptions import relevance
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    kind = validator_for(schema)
    try:
        kind.check_schema(schema)
        # An empty registry of its own: a schema of a server must not make this process fetch anything.
        validator = with_safe_patterns(kind)(of_one_dialect(schema), registry=Registry())
        problems = sorted(validator.iter_errors(dict(arguments)), key=relevance)
    except (SchemaError, Unresolvable, RecursionError):
        return
    if problems:
        lines = [_problem(list(problem.absolute_path), problem.message) for problem in problems[:PROBLEMS_SHOWN]]
        properties = ", ".join(map(str, schema.get("properties", {})))
        raise ToolFailed(
            f"The arguments do not fit: {'; '.join(lines)}.", fix=f"Parameters: {properties}." if properties else ""
        )


def _problem(path: list[str | int], message: str) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    words = message if len(message) <= WORDS_CHARACTERS else message[: WORDS_CHARACTERS - 1] + "…"
    return f"{json.dumps(place, ensure_ascii=False)}: {words}" if place else words
