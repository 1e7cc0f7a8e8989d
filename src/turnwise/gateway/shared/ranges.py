"""What part of an artifact is wanted, and whether it is wanted at all: conditional and range requests of RFC 9110. Pure."""

import hashlib
import re
from typing import NamedTuple

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class Part(NamedTuple):
    """From the first byte up to before the last."""

    begin: int
    end: int


def etag_of(data: bytes) -> str:
    """Of the bytes alone: a version that was deleted may come again under its number, with others."""
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'


def is_known(if_none_match: str | None, etag: str) -> bool:
    """Whether the reader has it already, as the header `If-None-Match` says."""
    if if_none_match is None:
        return False
    given = [each.strip().removeprefix("W/") for each in if_none_match.split(",")]
    return "*" in given or etag in given


def part_of(range_: str | None, if_range: str | None, size: int, etag: str) -> Part | None:
    """The part that the header `Range` asks for; None = all of it.

    All also for several ranges, for units other than bytes, and when the reader's beginning is of something else. ValueError
    when there is no such part.
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
            return None  # no range at all, says the RFC, so it does not count
    if begin >= size or begin == end:
        raise ValueError(f"of {size} bytes")
    return Part(begin, end)
