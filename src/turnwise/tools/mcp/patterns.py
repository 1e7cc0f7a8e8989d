"""Patterns in a JSON schema of a server, matched by RE2: none can be made to take forever, as with Python's own `re`."""

from collections.abc import Iterator, Mapping
from typing import Any

import re2

DIALECT = "$schema"


def with_safe_patterns(kind: Any) -> Any:
    """That validator class of jsonschema with all that matches patterns replaced.

    `unevaluatedProperties` lets everything through: whether it asks for a pattern cannot be told from where it stands.
    """
    from jsonschema.validators import extend

    plain = kind.VALIDATORS
    made = {"pattern": _pattern, "patternProperties": _pattern_properties, "unevaluatedProperties": _anything}
    if "additionalProperties" in plain:
        made["additionalProperties"] = _further_properties(plain["additionalProperties"])
    return extend(kind, {name: check for name, check in made.items() if name in plain})


def of_one_dialect(schema: Any) -> Any:
    """The schema without any word on its dialect: jsonschema would take a class of its own for a part that names one."""
    if isinstance(schema, Mapping):
        return {key: of_one_dialect(value) for key, value in schema.items() if key != DIALECT or not isinstance(value, str)}
    return [of_one_dialect(item) for item in schema] if isinstance(schema, list) else schema


def matches(pattern: str, text: str) -> bool | None:
    """Whether the pattern is found in the text; None when RE2 cannot read one of them."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options).search(text) is not None
    except (re2.error, UnicodeEncodeError):
        return None


def _pattern(validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(instance, "string") and matches(pattern, instance) is False:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        for pattern, within in patterns.items():
            for name, value in instance.items():
                if matches(pattern, name):
                    yield from validator.descend(value, within, path=name, schema_path=pattern)


def _further_properties(plain: Any) -> Any:
    """The same check without patterns, of what no pattern takes."""

    def check(validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        if validator.is_type(instance, "object"):
            patterns = schema.get("patternProperties", {})
            left = {key: value for key, value in instance.items() if all(matches(each, key) is False for each in patterns)}
            named = {key: value for key, value in schema.items() if key != "patternProperties"}
            yield from plain(validator, allowed, left, named)

    return check


def _anything(*_: Any) -> tuple[()]:
    return ()
