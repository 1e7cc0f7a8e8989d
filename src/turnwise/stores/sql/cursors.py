"""Page cursors: opaque to callers, validated when they return."""

import base64
import json
from typing import Any

from turnwise.facts.errors import CursorInvalid


def cursor(kind: str, *values: str | int) -> str:
    """Returns the cursor after a row with these sort values."""
    text = json.dumps([kind, *values], ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(kind: str, text: str, *types: type) -> tuple[Any, ...]:
    """Returns the values of a cursor. CursorInvalid for any other text, or a cursor of another list."""
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        data = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        data = None
    if isinstance(data, list) and data[:1] == [kind]:
        values = tuple(data[1:])
        if tuple(type(value) for value in values) == types and all(_is_storable(value) for value in values):
            return values
    raise CursorInvalid(
        f"{text[:80]!r} is not a cursor of this list.", fix="Pass a page's `next` as it is, or None to begin at the front."
    )


def _is_storable(value: str | int) -> bool:
    """Returns whether every database accepts the value."""
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)
    return -(2**63) <= value < 2**63


def check_limit(limit: int) -> None:
    if limit < 1:
        raise ValueError(f"A page holds at least one row; limit is {limit}.")
