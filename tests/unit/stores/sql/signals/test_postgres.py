"""Signals of several instances on one real database: each is what a process would be."""

import asyncio
import gc
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
import pytest

from turnwise.facts.content import Content, DataPart
from turnwise.facts.events import Event
from turnwise.ports.signals import Watch
from turnwise.stores.sql.postgres_signals import BATCH_SECONDS, CHANNEL, PostgresSignals
from turnwise.stores.sql.signal_mailbox import PIECE
from turnwise.testing.postgres import new_postgres_database, postgres_url
from turnwise.testing.signals_suite import PATIENCE, fresh_key, heard, piece


@contextmanager
def outsider(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Somebody else who uses the database."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@asynccontextmanager
async def two(**options: float) -> AsyncIterator[tuple[PostgresSignals, PostgresSignals]]:
    here, there = PostgresSignals(postgres_url(), **options), PostgresSignals(postgres_url(), **options)
    try:
        yield here, there
    finally:
        await here.close()
        await there.close()


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "turnwise-signals"}


def sessions(connection: psycopg.Connection[Any]) -> list[int]:
    """The processes of the server that serve others on this database."""
    query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    return [row[0] for row in connection.execute(query)]


async def text_of(watch: Watch, offset: int = 0) -> tuple[str, int]:
    """The text that comes before the next change, without a gap, and in how many events it came."""
    pieces: list[Event] = []
    while (item := await heard(watch)) is not None:
        assert item.offset == offset + sum(len(piece.text) for piece in pieces)
        pieces.append(item)
    return "".join(piece.text for piece in pieces), len(pieces)


async def test_nothing_connects_before_it_is_needed() -> None:
    url, before = new_postgres_database(), threads()
    with outsider(url) as connection:
        signals = PostgresSignals(url)
        assert signals.poll_seconds == 1.0
        assert (threads() - before, sessions(connection)) == (set(), [])
        signals.changed(fresh_key())
        await eventually(lambda: len(sessions(connection)) == 1)
        (thread,) = threads() - before
        await signals.close()
        assert not thread.is_alive()
        await eventually(lambda: sessions(connection) == [])


async def test_partials_cross_while_they_are_watched() -> None:
    """E7: and silence is kept otherwise."""
    key, options = fresh_key(), {"announce_seconds": 0.1}
    async with two(**options) as (here, there):
        with outsider(postgres_url()) as connection:
            connection.execute(f"LISTEN {CHANNEL}")

            def sent() -> set[str]:
                notes = [note for n in connection.notifies(timeout=0) for note in json.loads(n.payload)["n"]]
                return {note["k"] for note in notes if note.get("key") == list(key)}

            there.changed(key)
            with here.watch(key) as watch:
                assert await heard(watch) is None
                there.partial(key, piece("a"))
                assert await heard(watch) == piece("a")
            seen: set[str] = set()

            def all_seen() -> bool:
                seen.update(sent())
                return seen == {"watched", "changed", "partial"}

            await eventually(all_seen)
            async with asyncio.timeout(PATIENCE):
                quiet = False
                while not quiet:
                    there.partial(key, piece("b", 1))
                    await asyncio.sleep(0.1)
                    quiet = not sent()


async def test_a_late_watcher_misses_nothing() -> None:
    """E7: it announces itself after the change, and is told of it all the same."""
    key = fresh_key()
    async with two() as (here, there):
        there.changed(key)
        await asyncio.sleep(0.05)
        with here.watch(key) as watch:
            assert await heard(watch) is None


async def test_a_stream_of_tokens_is_no_stream_of_notifications() -> None:
    """E7: nothing of the text is missing, and what comes between two batches comes as one."""
    key, count = fresh_key(), 300
    async with two() as (here, there):
        there.changed(key)
        with here.watch(key) as watch:
            assert await heard(watch) is None
            begun = time.monotonic()
            for number in range(count):
                there.partial(key, piece("tok ", 4 * number))
                await asyncio.sleep(0.001)
            there.changed(key)
            text, events = await text_of(watch)
            batches = (time.monotonic() - begun) / BATCH_SECONDS + 2
            assert text == "tok " * count
            assert events <= batches + len(text) / PIECE


async def test_long_texts_arrive_and_what_is_too_large_is_left_out() -> None:
    key, long = fresh_key(), "zß水🍌" * 5_000
    large = piece("", id_="event-2").replace(content=Content(parts=(DataPart(data="x" * 9_000),)))
    async with two() as (here, there):
        there.changed(key)
        with here.watch(key) as watch, there.watch(key) as near:
            assert await heard(watch) is None
            there.partial(key, large)
            there.partial(key, piece(long, 3))
            there.changed(key)
            assert (await text_of(watch, 3))[0] == long
            assert [await heard(near), await heard(near)] == [large, piece(long, 3)], "in one process nothing is cut"


async def test_own_notifications_are_not_heard_twice() -> None:
    key = fresh_key()
    async with two() as (here, there):
        there.changed(key)
        with here.watch(key) as watch, there.watch(key) as other:
            assert await heard(watch) is None
            there.partial(key, piece("a"))
            assert await heard(watch) == piece("a"), "so it was sent"
            here.partial(key, piece("b", 1))
            assert [await heard(other), await heard(other)] == [piece("a"), piece("b", 1)]


async def test_nonsense_from_strangers_is_ignored() -> None:
    """Whoever may use the database can notify."""
    key = fresh_key()
    stored = json.loads(piece("stored").replace(partial=False, sequence=7).model_dump_json())
    parcels: list[object] = [
        "hello",
        7,
        {"v": 2, "s": "x", "n": [{"k": "changed", "key": list(key)}]},
        {"v": 1, "s": "x", "n": [{"k": "partial", "key": list(key), "event": stored}]},
        {"v": 1, "s": "x", "n": [{"k": "partial", "key": list(key), "event": {"id": 7}}]},
        {"v": 1, "s": "x", "n": [{"k": "partial", "key": list(key), "event": json.loads(piece("real").model_dump_json())}]},
    ]
    payloads = ["", "{", "[" * 7_000, *(json.dumps(parcel) for parcel in parcels)]
    async with two() as (here, there):
        there.changed(key)
        with here.watch(key) as watch, outsider(postgres_url()) as connection:
            assert await heard(watch) is None
            for payload in payloads:
                connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload))
            assert await heard(watch) == piece("real")


async def test_a_lost_connection_is_made_again(caplog: pytest.LogCaptureFixture) -> None:
    """E7: whoever watches looks then, and an outage is logged once."""
    url, key = new_postgres_database(), fresh_key()
    here, there = PostgresSignals(url), PostgresSignals(url)
    with here.watch(key) as watch, outsider(url) as connection:
        there.changed(key)
        assert await heard(watch) is None
        for number in range(2):
            await cut(connection, 2)
            assert await heard(watch) is None
            there.changed(key)
            # The first that comes may tell of the outage still.
            while (item := await heard(watch)) is None:
                there.partial(key, piece("a", number))
            assert item.text == "a"
            while await watch.next(0.1) is not None:
                pass
    await here.close()
    await there.close()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 2, "one for each of them"
    assert all(warning.startswith("No signals through postgresql://") for warning in warnings)


async def cut(connection: psycopg.Connection[Any], count: int) -> None:
    """Ends that many connections of others, and waits for as many new ones."""
    before = set(sessions(connection))
    assert len(before) == count
    for pid in before:
        connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
    await eventually(lambda: len(set(sessions(connection)) - before) == count)


@pytest.mark.parametrize("address", ["?host=/nowhere", "127.0.0.1:1/db"])
async def test_a_server_that_is_not_there(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing raises, this process is woken, and the password is nobody's business."""
    separator = "/db" if address.startswith("?") else ""
    signals, key, before = PostgresSignals(f"postgresql://ann:s3cret@{separator}{address}"), fresh_key(), threads()
    with signals.watch(key) as watch:
        signals.partial(key, piece("a"))
        signals.changed(key)
        assert [await heard(watch), await heard(watch)] == [piece("a"), None]
        await eventually(lambda: len(caplog.records) > 0)
        await asyncio.sleep(0.4)
    await signals.close()
    assert threads() <= before
    (record,) = caplog.records
    assert "ann:***@" in record.getMessage()
    assert "s3cret" not in caplog.text


async def test_a_forgotten_one_ends_its_thread() -> None:
    signals, before = PostgresSignals(postgres_url()), threads()
    signals.changed(fresh_key())
    (thread,) = threads() - before
    del signals
    gc.collect()
    await eventually(lambda: not thread.is_alive())


async def test_what_was_published_before_the_end_is_sent() -> None:
    """E7: the last word of a process that ends."""
    key = fresh_key()
    async with two() as (here, there):
        there.changed(key)
        with here.watch(key) as watch:
            assert await heard(watch) is None
            there.partial(key, piece("a"))
            there.partial(key, piece("b", 1))
            there.changed(key)
            await there.close()
            assert (await text_of(watch))[0] == "ab"


def test_two_event_loops_and_two_instances() -> None:
    """E7: one thread's loop publishes, another's waits."""
    key = fresh_key()

    async def read(watching: threading.Event) -> str:
        signals = PostgresSignals(postgres_url())
        with signals.watch(key) as watch:
            watching.set()
            assert await heard(watch) is None
            text = ""
            while not text.endswith("."):
                item = await heard(watch)
                text += item.text if item else ""
        await signals.close()
        return text

    async def main() -> None:
        watching = threading.Event()
        reading = asyncio.create_task(asyncio.to_thread(asyncio.run, read(watching)))
        await asyncio.to_thread(watching.wait, PATIENCE)
        signals = PostgresSignals(postgres_url())
        while not reading.done():
            signals.changed(key)
            signals.partial(key, piece("."))
            await asyncio.sleep(0.02)
        assert set(await reading) == {"."}
        await signals.close()

    asyncio.run(main())
