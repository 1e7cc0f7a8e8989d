"""Searches among the entries of many users, and what remembering adds to a turn.

The entries of one user are made by the store, and copied to the others in the database.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from bench.measure import Figure, Work, in_turns, progress
from bench.scene import used_bytes
from numpy.typing import NDArray
from sqlalchemy import Engine, Table, create_engine, text

from turnwise import AgentContext, Runner, agent
from turnwise.facts.memory import MemoryConfig, MemoryEntry
from turnwise.ports.memory import QueryVector
from turnwise.stores.sql.memory_rows import memories, memory_terms, memory_users, memory_vectors
from turnwise.stores.sql.store import SqlSessionStore
from turnwise.stores.sql.tables import owner_of
from turnwise.testing import BagOfWordsEncoder
from turnwise.testing.postgres import new_postgres_database

ENTRIES, SEARCHES = 100, 300
"""The entries of each user, and the searches, each of another user."""
P50, P99, COLD = 5.0, 15.0, 25.0
REMEMBERING = 0.5
_APP, _ENCODER, _DIMENSIONS = "bench", "made-up", 384
_BLOCK = 500
_PG_BYTES = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'turnwise_memor%'"


def searches(folder: Path, users: int) -> list[Figure]:
    """Returns the times of searches and the bytes of entries on both databases."""
    return asyncio.run(_searches(folder, users))


def turns(folder: Path, *, quick: bool = False) -> list[Figure]:
    """Returns what the memory adds to the CPU of a turn."""
    return asyncio.run(_turns(folder, rounds=3 if quick else 9))


async def _searches(folder: Path, users: int) -> list[Figure]:
    file = folder / "users.db"
    found: list[Figure] = []
    for name, url in (("SQLite", f"sqlite:///{file}"), ("PostgreSQL", new_postgres_database())):
        vectors = _vectors(ENTRIES)
        await _make_first(url, vectors)
        engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
        _copy(engine, users)
        with engine.connect() as connection:
            size = connection.execute(text(_PG_BYTES)).scalar_one() if name == "PostgreSQL" else used_bytes(file)
        engine.dispose()
        found += await _searched(name, url, users, vectors)
        found.append(Figure(f"{name}: bytes of an entry, with its words and vector", f"{int(size) / users / ENTRIES:,.0f}"))
    return found


def _vectors(count: int) -> NDArray[np.float32]:
    made = np.random.default_rng(20_111).normal(size=(count, _DIMENSIONS)).astype(np.float32)
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


def _texts() -> list[str]:
    generator = np.random.default_rng(20_112)
    words = [f"word{number}" for number in range(5_000)]
    shares = 1 / np.arange(1, len(words) + 1)
    return [" ".join(generator.choice(words, 15, p=shares / shares.sum())) + f" n{at}" for at in range(ENTRIES)]


async def _make_first(url: str, vectors: NDArray[np.float32]) -> None:
    """Makes the memory of the first user."""
    store, now = SqlSessionStore(url), datetime.now(UTC)
    try:
        entries = [MemoryEntry(id=str(at), text=each, said_by="user", created_at=now) for at, each in enumerate(_texts())]
        await store.memory.remember(_APP, "user0", entries)
        while texts := await store.memory.unencoded(_APP, "user0", _ENCODER):
            rows = vectors[[int(each.text.rsplit("n", 1)[1]) for each in texts]]
            await store.memory.put_vectors(_APP, "user0", _ENCODER, [each.number for each in texts], rows)
    finally:
        await store.close()


def _copy(engine: Engine, users: int) -> None:
    """Copies the first user's memory to the others, in transactions of some users each."""
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE bench_owners (owner BIGINT, name TEXT)"))
    first = owner_of(_APP, "user0")
    # In the order of the tables' keys, as a database of that size takes them fastest.
    owners = sorted((owner_of(_APP, name), name) for name in (f"user{number}" for number in range(1, users)))
    with progress("Users", users // _BLOCK + 1) as step:
        for start in range(0, len(owners), _BLOCK):
            rows = [{"owner": owner, "name": name} for owner, name in owners[start : start + _BLOCK]]
            with engine.begin() as connection:
                connection.execute(text("DELETE FROM bench_owners"))
                connection.execute(text("INSERT INTO bench_owners VALUES (:owner, :name)"), rows)
                for table in (memory_users, memories, memory_terms, memory_vectors):
                    connection.execute(text(_copying(table)), {"first": first})
            step(f"{start + len(rows):,} users")
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE bench_owners"))


def _copying(table: Table) -> str:
    names = [column.name for column in table.columns]
    copied = {"owner": "o.owner", "user_id": "o.name"}
    values = ", ".join(copied.get(name, f't."{name}"') for name in names)
    columns = ", ".join(f'"{name}"' for name in names)
    return f"INSERT INTO {table.name} ({columns}) SELECT {values} FROM bench_owners o, {table.name} t WHERE t.owner = :first"


async def _searched(name: str, url: str, users: int, vectors: NDArray[np.float32]) -> list[Figure]:
    generator = np.random.default_rng(20_113)
    chosen = [f"user{number}" for number in generator.choice(users, min(SEARCHES, users), replace=False)]
    queries = [" ".join(f"word{number}" for number in generator.integers(0, 2_000, 8)) for _ in chosen]
    store = SqlSessionStore(url)
    try:
        await _times(store, ["user0"], queries, vectors)  # statements are compiled once in a process
        cold, _ = (await _times(store, chosen, queries, vectors)).T
        warm, cpu = (await _times(store, chosen, queries, vectors)).T
    finally:
        await store.close()
    what = f"{name}: ms of a search, {users * ENTRIES:,} entries of {users:,} users"
    (p50, p99), (cold50, cold99) = np.percentile(warm, [50, 99]), np.percentile(cold, [50, 99])
    return [
        Figure(f"{what}, warm, p50", f"{p50:.1f}", bound=f"≤ {P50:g}", kept=bool(p50 <= P50)),
        Figure(f"{what}, warm, p99", f"{p99:.1f}", bound=f"≤ {P99:g}", kept=bool(p99 <= P99)),
        Figure(f"{what}, warm, CPU p50", f"{np.median(cpu):.1f}"),
        Figure(f"{what}, first of a user, p50", f"{cold50:.1f}", bound=f"≤ {COLD:g}", kept=bool(cold50 <= COLD)),
        Figure(f"{what}, first of a user, p99", f"{cold99:.1f}"),
    ]


async def _times(
    store: SqlSessionStore, users: Sequence[str], queries: Sequence[str], vectors: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Returns the wall time and this process's CPU of a search for each user, in milliseconds."""
    times = []
    for number, user in enumerate(users):
        wall, cpu = time.perf_counter(), time.process_time()
        await store.memory.search(_APP, user, queries[number], vector=QueryVector(_ENCODER, vectors[number % len(vectors)]))
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return 1_000 * np.array(times)


@agent(name="answers", description="Answers.")
async def _answers(message: str) -> str:
    return f"echo: {message}"


@agent(name="remembers", description="Answers.")
async def _remembers(message: str, context: AgentContext) -> str:
    await context.memory.remember(f"The user said: {message}", said_by="user")
    return f"echo: {message}"


class _Nothing(BagOfWordsEncoder):
    """An encoder that costs next to nothing, so that a turn is measured without encoding."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.full((len(texts), self.dimensions), self.dimensions**-0.5, np.float32)


async def _turns(folder: Path, rounds: int, turns: int = 60) -> list[Figure]:
    """Compares the CPU of turns: without a memory, with one that has nothing to do, and with an entry each."""
    encoder = _Nothing()
    made = {
        "without": Runner(_answers, store=f"sqlite:///{folder / 'without.db'}", encoder=encoder),
        "idle": Runner(_answers, store=f"sqlite:///{folder / 'idle.db'}", encoder=encoder, memory=MemoryConfig()),
        "remembers": Runner(_remembers, store=f"sqlite:///{folder / 'remembers.db'}", encoder=encoder, memory=MemoryConfig()),
    }
    numbers = iter(range(10**9))

    def work(runner: Runner) -> Work:
        async def some() -> int:
            session = f"s{next(numbers)}"
            for number in range(turns):
                invocation = await runner.start(f"hello there number {number}x", user="ann", session=session)
                await invocation.result()
            await runner.memory.idle()
            return turns

        return some

    try:
        with progress("Turns", rounds) as step:
            costs = await in_turns({name: work(runner) for name, runner in made.items()}, rounds, step)
    finally:
        for runner in made.values():
            await runner.close()
    plain = costs["without"].cpu
    more = {name: costs[name].cpu - plain for name in ("idle", "remembers")}
    return [
        Figure("CPU ms of a turn without a memory", f"{plain:.2f}"),
        Figure("CPU ms more of a turn that names and remembers nothing", f"{more['idle']:.2f}"),
        Figure(
            "CPU ms more of a turn that remembers, beside encoding",
            f"{more['remembers']:.2f}",
            bound=f"≤ {REMEMBERING:g}",
            kept=more["remembers"] <= REMEMBERING,
        ),
    ]
