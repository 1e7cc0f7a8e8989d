"""How readers and waiting processes are woken: `LocalSignals` in one process, `PostgresSignals` also across processes."""

from turnwise.stores.sql.signals.local import LocalSignals
from turnwise.stores.sql.signals.postgres import PostgresSignals

__all__ = ["LocalSignals", "PostgresSignals"]
