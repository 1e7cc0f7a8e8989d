"""The session store on SQL databases: `SqlSessionStore(url)`."""

from turnwise.stores.sql.store import SqlSessionStore

__all__ = ["SqlSessionStore"]
