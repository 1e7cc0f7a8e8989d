"""Notices when the database's clock is set: then leases that seem to be over are left to their holders for a while."""

import threading
import time
from collections.abc import Callable

from sqlalchemy import Connection, select

from turnwise.stores.sql.tables import clock

TOLERANCE_SECONDS = 1.0
DRIFT = 0.001
"""How much faster or slower than this process's clock the database's may go."""

_NOW = select(clock())


class ClockWatch:
    """Compares the database's clock with one of this process that only grows. For any number of threads.

    A lease ends by the database's clock, for all processes share that one. When somebody sets it, leases of living holders
    seem to be over until they are renewed. To take such a session would cost its answer an attempt.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._lock = threading.Lock()
        self._seen: tuple[float, float] | None = None
        self._set_at: float | None = None

    def look(self, connection: Connection) -> float:
        """The database's time, in seconds. Compares it with what the last look lets expect."""
        before = self._steady()
        now = float(connection.execute(_NOW).scalar_one())
        after = self._steady()
        with self._lock:
            if self._seen is not None:
                passed = after - self._seen[1]
                tolerated = TOLERANCE_SECONDS + DRIFT * passed + (after - before)
                if abs(now - self._seen[0] - passed) > tolerated:
                    self._set_at = now
            self._seen = (now, after)
        return now

    def spares(self, connection: Connection, since: float, until: float) -> bool:
        """Whether a lease that is over by the database's clock is left to its holder.

        That is as long as the lease lasts, from when the clock was seen to be set: a living holder renews it meanwhile.
        """
        now = self.look(connection)
        with self._lock:
            return self._set_at is not None and self._set_at <= now < self._set_at + (until - since)
