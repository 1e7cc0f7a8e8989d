"""The one seam for ids and time: replace the issuer, and a run is deterministic."""

import os
import random
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol


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
