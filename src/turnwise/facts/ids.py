"""The one seam for ids and time: replace the issuer, and a run is deterministic."""

import os
import random
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol

ID_CHARACTERS = 200


class Issuer(Protocol):
    """Issues ids and the time. Tests and replays pass their own."""

    def new_id(self, kind: str) -> str:
        """A fresh id beginning with `kind` and a dash; later ids of one process sort after earlier ones."""
        ...

    def now(self) -> datetime:
        """The current time, aware, UTC."""
        ...


# Ids have to differ, not to be secret: a seeded generator is ten times faster than asking the system for each.
_random = random.Random(secrets.randbits(128))
os.register_at_fork(after_in_child=lambda: _random.seed(secrets.randbits(128)))


class SystemIssuer:
    """Ids of 48 bits of milliseconds and 64 random bits, in hexadecimal, so that they sort by time; the system's clock."""

    def new_id(self, kind: str) -> str:
        return f"{kind}-{time.time_ns() // 1_000_000:012x}{_random.getrandbits(64):016x}"

    def now(self) -> datetime:
        return datetime.now(UTC)


def is_storable_id(text: str) -> bool:
    """Whether it can be the id of a user, session or message: 1 to 200 characters, which every store can keep."""
    return 1 <= len(text) <= ID_CHARACTERS and "\x00" not in text and not _has_surrogates(text)


def _has_surrogates(text: str) -> bool:
    """Whether it holds what UTF-8 cannot write."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)
