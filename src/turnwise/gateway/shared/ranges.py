"""Conditional and range requests for artifacts (RFC 9110). Pure functions."""

import hashlib
import re
from typing import NamedTuple

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class Part(NamedTuple):
    """A byte range: `end` is exclusive."""

    begin: int
    end: int


def etag_of(data: bytes) -> str:
    """Returns an ETag of the bytes. It ignores the version, since a deleted version's number may be used again."""
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'


def is_known(if_none_match: str | None, etag: str) -> bool:
    """Returns whether the header `If-None-Match` matches the ETag."""
    if if_none_match is None:
        return False
    given = [each.strip().removeprefix("W/") for each in if_none_match.split(",")]
    return "*" in given or etag in given


def part_of(range_: str | None, if_range: str | None, size: int, etag: str) -> Part | None:
    """Returns the range that the header `Range` requests; None for all bytes.

    None is also returned for several ranges, for other units, and if `If-Range` does not match.

    Raises:
        ValueError: The range lies outside the bytes.
    """
    if range_ is None or (if_range is not None and if_range.strip() != etag):
        return None
    match = _RANGE.fullmatch(range_.replace(" ", ""))
    if match is None or not any(match.groups()):
        return None
    first, last = match.groups()
    if not first:
        begin, end = max(size - int(last), 0), size
    else:
        begin, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < begin:
            return None  # an invalid range, which the RFC says to ignore
    if begin >= size or begin == end:
        raise ValueError(f"of {size} bytes")
    return Part(begin, end)
