"""Finds the legal holds and the audit log of a session store."""

from turnwise.facts.errors import ConfigError
from turnwise.ports.records import RecordStore


def record_store_of(store: object) -> RecordStore:
    """Returns the store as one that also keeps labels, legal holds and the audit log.

    Raises:
        ConfigError: The store does not support them.
    """
    if isinstance(store, RecordStore):
        return store
    raise ConfigError(
        f"A {type(store).__name__} keeps no legal holds and no audit log.",
        fix="Use a SQL session store: store: sqlite:///file.db",
    )
