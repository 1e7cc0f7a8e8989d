"""Detects changes of the database's clock, so that leases and windows from before the change stay valid."""

import threading
import time
from collections.abc import Callable

from sqlalchemy import Connection, select

from turnwise.stores.sql.tables import clock

TOLERANCE_SECONDS = 1.0
DRIFT = 0.001
"""How much faster or slower than this process's clock the database's clock may run."""

_NOW = select(clock())


class ClockWatch:
    """Detects changes of the database's clock by comparing it with a monotonic clock of this process. Thread-safe.

    A lease ends by the database's clock, because all processes share it. When that clock is set, leases of live holders seem to
    be over until they are renewed. Taking such a session would cost the running answer an attempt.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._lock = threading.Lock()
        self._last_read: tuple[float, float] | None = None
        self._changed_at: float | None = None
        self._moved = 0.0

    def read(self, connection: Connection) -> float:
        """Returns the database's time in seconds and checks it against the last reading."""
        before = self._steady()
        now = float(connection.execute(_NOW).scalar_one())
        after = self._steady()
        with self._lock:
            if self._last_read is not None:
                passed = after - self._last_read[1]
                tolerance = TOLERANCE_SECONDS + DRIFT * passed + (after - before)
                moved = now - self._last_read[0] - passed
                if abs(moved) > tolerance:
                    self._changed_at, self._moved = now, moved
            self._last_read = (now, after)
        return now

    def protects(self, connection: Connection, since: float, until: float) -> bool:
        """Returns whether a lease that seems to be over still belongs to its holder.

        It does for the length of the lease after a clock change: a live holder renews it in this time.
        """
        return self.moved(connection, until - since) != 0.0

    def moved(self, connection: Connection, seconds: float) -> float:
        """Returns how far the database's clock was set in the last `seconds`; 0.0 if it was not set.

        A time that was stored before the change is compared with the clock less this number.
        """
        now = self.read(connection)
        with self._lock:
            is_recent = self._changed_at is not None and self._changed_at <= now < self._changed_at + seconds
            return self._moved if is_recent else 0.0
