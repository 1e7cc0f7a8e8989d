"""Vectors of phrases and fitted matchers in the database, so that all processes decide with the same numbers (E9)."""

import logging
import sqlite3
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from sqlalchemy import Connection, bindparam, delete, select
from sqlalchemy.exc import SQLAlchemyError

from turnwise.facts.errors import TurnwiseError
from turnwise.facts.ids import SystemIssuer
from turnwise.stores.sql.clock_watch import ClockWatch
from turnwise.stores.sql.counters import give_place, take_place
from turnwise.stores.sql.ids import new_id
from turnwise.stores.sql.index_tables import matchers, vectors
from turnwise.stores.sql.tables import insert_for
from turnwise.stores.sql.worker_pool import Executor, SeparateConnection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.matching.disk_cache import Arrays, Keys, Vectors

T = TypeVar("T")

PART_BYTES = 250_000
"""A matcher is written in parts, so that no write holds the database for long."""
PAUSE_SECONDS = 0.01
"""The pause after each part: SQLite gives a lock to whoever asks next, so a message's write would otherwise get no turn."""
KEPT = 4
"""The number of matchers that stay; each may be hundreds of megabytes."""
CLAIM_SECONDS = 30.0
_AT_ONCE, _PARTS_AT_ONCE = 400, 4
_m, _v = matchers.c, vectors.c
_VECTORS = select(_v.text_key, _v.row).where(
    _v.encoder == bindparam("at_encoder"), _v.text_key.in_(bindparam("keys", expanding=True))
)
_PARTS = select(_m.part, _m.body).where(_m.fingerprint == bindparam("at_fingerprint")).order_by(_m.part)
_REMOVE = delete(matchers).where(_m.fingerprint == bindparam("at_fingerprint"))
_REMOVE_PART = _REMOVE.where(_m.part == bindparam("at_part"))
_PARTS_OF = select(_m.fingerprint, _m.part).where(_m.fingerprint.in_(bindparam("old", expanding=True))).order_by(_m.part.desc())
_WHOLE = select(_m.fingerprint).where(_m.part == 0).order_by(_m.id.desc())
_DAMAGE = (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile)

log = logging.getLogger("turnwise.store")


class SqlIndexCache:
    """A cache in the store's database. Implements `matching.disk_cache.IndexCache`: it is used from threads, and does not
    raise.

    Args:
        executor: The store's executor. A database in memory has no second connection; the cache is then empty.
        watch: Notices changes of the database's clock.
    """

    def __init__(self, executor: Executor, watch: ClockWatch) -> None:
        self._executor, self._watch = executor, watch
        self._holder = SystemIssuer().new_id("fit")
        self._connection: SeparateConnection | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def vectors(self, encoder: str, dimensions: int, keys: "Keys") -> "Vectors":
        """Returns the stored vectors among these keys."""
        import numpy as np

        from turnwise.matching.disk_cache import Vectors

        wanted = np.unique(keys)
        rows, found = np.empty((len(wanted), dimensions), np.float16), np.zeros(len(wanted), bool)
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE].tolist()
            known = self._run(partial(_vectors, encoder=encoder, keys=[key.decode() for key in some])) or {}
            for place, key in enumerate(some, start):
                row = known.get(key.decode(), b"")
                if len(row) == 2 * dimensions:
                    rows[place], found[place] = np.frombuffer(row, np.float16), True
        return Vectors(wanted, rows) if bool(found.all()) else Vectors(wanted[found], rows[found])

    def store_vectors(self, encoder: str, vectors: "Vectors") -> bool:
        """Stores vectors. Returns whether that succeeded."""
        pairs = [(key.decode(), row.tobytes()) for key, row in zip(vectors.keys.tolist(), vectors.rows.raw(), strict=True)]
        done = [self._run(partial(_add, encoder=encoder, pairs=some)) for some in _batches(pairs)]
        return None not in done

    def matcher(self, fingerprint: str) -> "Arrays | None":
        """Returns the arrays of a stored matcher; None when there is none, or it is incomplete."""
        import numpy as np

        try:
            with tempfile.TemporaryFile() as file:  # such a matcher may have hundreds of megabytes
                if not self._run(lambda connection: _read(connection, fingerprint, file)):
                    return None
                with np.load(file, allow_pickle=False) as arrays:
                    return {name: arrays[name] for name in arrays.files}
        except _DAMAGE as problem:
            log.warning("A stored matcher cannot be used (%s) and is fitted again.", type(problem).__name__)
            self.remove_matcher(fingerprint)  # it may be half removed
            return None

    def store_matcher(self, fingerprint: str, arrays: "Mapping[str, NDArray[np.generic]]") -> None:
        """Stores a matcher, and removes all but the newest ones. Without room for a temporary file, nothing is stored."""
        try:
            self._store_parts(fingerprint, arrays)
        except OSError as problem:
            log.warning("A matcher cannot be stored (%s).", problem.strerror)

    def _store_parts(self, fingerprint: str, arrays: "Mapping[str, NDArray[np.generic]]") -> None:
        """Stores a fitted matcher in parts, the first part last: without it, no process loads the matcher."""
        import numpy as np

        number = new_id()
        with tempfile.TemporaryFile() as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            # Part 0 comes last and makes the matcher whole.
            for part in reversed(range(-(-file.tell() // PART_BYTES))):
                file.seek(part * PART_BYTES)
                row = {"fingerprint": fingerprint, "part": part, "id": number, "body": file.read(PART_BYTES)}
                if self._run(partial(_add_part, row=row)) is None:
                    return
                if part and self._closed.wait(PAUSE_SECONDS):
                    return
        # Part 0 goes last, so that what a crash leaves is found again. Freeing many pages takes as long as writing them.
        for old, part in self._run(_old_parts) or ():
            self._run(partial(_remove_part, fingerprint=old, part=part))
            if self._closed.wait(PAUSE_SECONDS):
                return

    def remove_matcher(self, fingerprint: str) -> None:
        """Removes a matcher."""
        self._run(lambda connection: connection.execute(_REMOVE, {"at_fingerprint": fingerprint}))

    def claim(self, fingerprint: str) -> bool:
        """Returns whether this process fits that matcher; renews the claim. True if the database does not answer."""
        name = f"fit:{fingerprint}"
        taken = self._run(lambda connection: take_place(connection, name, self._holder, 1, CLAIM_SECONDS, self._watch))
        return taken is not False

    def release(self, fingerprint: str) -> None:
        """Ends the claim."""
        self._run(lambda connection: give_place(connection, f"fit:{fingerprint}", self._holder))

    def close(self) -> None:
        """Closes the connection, and stops the storing of a matcher. Idempotent."""
        self._closed.set()
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _run(self, job: Callable[[Connection], T]) -> T | None:
        """Returns the job's result; None when the database does not answer, or this object is closed."""
        with self._lock:
            if self._closed.is_set():
                return None
            if self._connection is None:
                self._connection = self._executor.separate_connection(large=True)
            if self._connection is None:
                return None
            try:
                return self._connection.run(job)
            except (TurnwiseError, SQLAlchemyError, sqlite3.Error) as problem:
                log.debug("The index cannot be read from or written to the database: %s", type(problem).__name__)
                return None


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))


def _vectors(connection: Connection, encoder: str, keys: Sequence[str]) -> dict[str, bytes]:
    return {row.text_key: bytes(row.row) for row in connection.execute(_VECTORS, {"at_encoder": encoder, "keys": list(keys)})}


def _add(connection: Connection, encoder: str, pairs: Sequence[tuple[str, bytes]]) -> bool:
    rows = [{"encoder": encoder, "text_key": key, "row": row} for key, row in pairs]
    connection.execute(insert_for(connection.dialect.name, vectors).on_conflict_do_nothing(), rows)
    return True


def _read(connection: Connection, fingerprint: str, file: BinaryIO) -> bool:
    """Writes the parts of a matcher into a file. Returns whether it is whole."""
    parts = connection.execute(_PARTS, {"at_fingerprint": fingerprint}, execution_options={"stream_results": True})
    file.seek(0)
    is_whole = False
    for row in parts.yield_per(_PARTS_AT_ONCE):
        is_whole = is_whole or row.part == 0
        file.write(row.body)
    file.seek(0)
    return is_whole


def _add_part(connection: Connection, row: Mapping[str, Any]) -> bool:
    connection.execute(insert_for(connection.dialect.name, matchers).on_conflict_do_nothing(), row)
    return True


def _old_parts(connection: Connection) -> Sequence[tuple[str, int]]:
    """Returns the parts of all but the newest matchers, each with its matcher's fingerprint."""
    old = connection.execute(_WHOLE).scalars().all()[KEPT:]
    return [(row.fingerprint, row.part) for row in connection.execute(_PARTS_OF, {"old": old})] if old else []


def _remove_part(connection: Connection, fingerprint: str, part: int) -> None:
    connection.execute(_REMOVE_PART, {"at_fingerprint": fingerprint, "at_part": part})
