"""What tests of a store in trouble share: its place, calls that read and write it, and a lock on its file."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, create_engine, text

from turnwise.facts.errors import StoreUnavailable
from turnwise.facts.sessions import SessionKey

KEY = SessionKey("app", "user", "session")
T = TypeVar("T")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def url_of(path: Path, **options: object) -> str:
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return f"sqlite:///{path}?{query}" if query else f"sqlite:///{path}"


def on(url: str, work: Callable[[Connection], Any]) -> Any:
    """Does something on a plain connection and commits."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.begin() as connection:
            return work(connection)
    finally:
        engine.dispose()


def put(key: str) -> Callable[[Connection], str]:
    def job(connection: Connection) -> str:
        connection.execute(text("INSERT INTO turnwise_app_state VALUES ('a', :key, '1') ON CONFLICT DO NOTHING"), {"key": key})
        return key

    return job


def keys(connection: Connection) -> list[str]:
    return list(connection.execute(text("SELECT key FROM turnwise_app_state ORDER BY key")).scalars())


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Makes a call until it succeeds: on a machine with much to do, the short patience of these tests may not suffice."""
    while True:
        try:
            return await call()
        except StoreUnavailable:
            await asyncio.sleep(0.05)


async def until_stable(read: Callable[[], Awaitable[T]]) -> T:
    """What `read` gives twice in a row, some time apart: nothing is still under way then."""
    seen = await insist(read)
    while True:
        await asyncio.sleep(0.3)
        now = await insist(read)
        if now == seen:
            return now
        seen = now


@contextlib.contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Holds the database's write lock, as another program would."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    yield other
    other.close()
