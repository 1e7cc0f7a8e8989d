"""Signals that wake readers and waiting processes: `LocalSignals` within a process, `PostgresSignals` across processes."""

from turnwise.stores.sql.signals.local import LocalSignals
from turnwise.stores.sql.signals.postgres import PostgresSignals

__all__ = ["LocalSignals", "PostgresSignals"]
