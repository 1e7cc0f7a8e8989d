"""The floor: a hand-written conversation store with sqlite3 and nothing more.

A turn reads all rows of the session, inserts the user's row and commits, inserts the reply's row and commits. It is as durable
as ours: WAL and synchronous=FULL. It has no routing, no streaming and no queue.
"""

import sqlite3
from collections.abc import Iterable
from pathlib import Path


class Floor:
    """One connection to one database file."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS events"
            " (session TEXT NOT NULL, sequence INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (session, sequence))"
        )

    def seed(self, session: str, bodies: Iterable[str]) -> None:
        """Fills an empty session in one transaction."""
        self._connection.execute("BEGIN IMMEDIATE")
        rows = ((session, sequence, body) for sequence, body in enumerate(bodies, 1))
        self._connection.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
        self._connection.execute("COMMIT")

    def turn(self, session: str, message: str, reply: str) -> list[tuple[str]]:
        """Runs one turn. Returns the session before the message, which an agent would get."""
        rows = self._connection.execute("SELECT body FROM events WHERE session = ? ORDER BY sequence", (session,)).fetchall()
        self._insert(session, len(rows) + 1, message)
        self._insert(session, len(rows) + 2, reply)
        return rows

    def _insert(self, session: str, sequence: int, body: str) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO events VALUES (?, ?, ?)", (session, sequence, body))
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()
