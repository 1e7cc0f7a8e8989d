"""What pydantic found wrong with a value, in our words. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

MISFITS_SHOWN = 10
_WANTED: Mapping[str, str] = {
    "string": "a text",
    "int": "a whole number",
    "float": "a number",
    "decimal": "a number",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen_set": "a list",
    "dict": "an object",
    "mapping": "an object",
    "model": "an object",
    "dataclass": "an object",
}
_SUBJECTS = frozenset({"Input", "String", "Value", "Number", "Data"})
_NO_SUCH = frozenset({"type", "parsing", "from_float", "attributes_type"})
_BOUNDS: Mapping[str, str] = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "none_required": "null",
}
_SIZES: Mapping[str, str] = {
    "too_short": "a length of {min_length} or more",
    "too_long": "a length of {max_length} or less",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
}


def misfits_found(error: ValidationError, value: str = "it", most: int = MISFITS_SHOWN) -> str:
    """What is wrong, each with its place: `it.people has to be 0 or more; it.name is missing`. value: what the whole is called;
    empty when its parts have names of their own. The value itself is not shown: it may hold what is nobody's business.
    """
    problems = error.errors(include_url=False, include_input=False)
    found = [each for each in problems if each["type"] != "too_short" or not _has_more(each["loc"], problems)]
    more = f" ({len(found) - most} more)" if len(found) > most else ""
    return "; ".join(_told(each, _place(value, each["loc"])) for each in found[:most]) + more


def _told(found: Any, place: str) -> str:
    kind, about = found["type"], found.get("ctx", {})
    wanted = next((words for start, words in _WANTED.items() if kind.removeprefix(f"{start}_") in _NO_SUCH), None)
    if wanted is not None:
        return f"{place} has to be {wanted}"
    if kind in _BOUNDS:
        return f"{place} has to be {_BOUNDS[kind].format(**about)}"
    if kind in _SIZES:
        return f"{place} has to have {_SIZES[kind].format(**about)}"
    if kind == "missing":
        return f"{place} is missing"
    if kind in {"extra_forbidden", "unexpected_keyword_argument"}:
        return f"{place} does not belong there"
    if kind == "json_invalid":
        return f"{place} is no JSON: {about['error']}"
    message: str = found["msg"].removeprefix("Value error, ").rstrip(".")
    what, should, rest = message.partition(" should ")
    return f"{place} should {rest}" if should and what in _SUBJECTS else f"{place}: {message}"


def _has_more(place: Sequence[int | str], problems: Sequence[Any]) -> bool:
    """Whether something below that place is wrong, too: what does not fit is not counted, so the rest looks too short."""
    return any(len(each["loc"]) > len(place) and each["loc"][: len(place)] == place for each in problems)


def _place(value: str, where: Sequence[int | str]) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in where)
    return f"{value}{steps}".removeprefix(".") or "it"
