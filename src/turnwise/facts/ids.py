"""The source of ids and time. Replacing the issuer makes a run deterministic."""

import os
import random
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol

ID_CHARACTERS = 200
"""The maximum length of an id."""


class Issuer(Protocol):
    """Issues ids and the current time. Tests and replays pass their own."""

    def new_id(self, kind: str) -> str:
        """Returns a new id that begins with `kind` and a dash. Within one process, later ids sort after earlier ones."""
        ...

    def now(self) -> datetime:
        """Returns the current time, timezone-aware, in UTC."""
        ...


# Ids must be unique, not secret: a seeded generator is ten times faster than a system call for each id.
_random = random.Random(secrets.randbits(128))
os.register_at_fork(after_in_child=lambda: _random.seed(secrets.randbits(128)))


class SystemIssuer:
    """Issues time-sorted ids, of 48 bits of milliseconds and 64 random bits in hexadecimal, and the system time."""

    def new_id(self, kind: str) -> str:
        return f"{kind}-{time.time_ns() // 1_000_000:012x}{_random.getrandbits(64):016x}"

    def now(self) -> datetime:
        return datetime.now(UTC)


def is_storable_id(text: str) -> bool:
    """Returns whether the text can be the id of a user, session or message: 1 to 200 characters that every store accepts."""
    return 1 <= len(text) <= ID_CHARACTERS and "\x00" not in text and not _has_surrogates(text)


def _has_surrogates(text: str) -> bool:
    """Returns whether the text holds surrogates, which UTF-8 cannot encode."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)
