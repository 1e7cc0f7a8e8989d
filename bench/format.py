"""The store's format: bytes and CPU of a turn, and rewinds, forks and deletions of long sessions, on SQLite and PostgreSQL.

Long sessions are built in the database from the events of one turn.
"""

import asyncio
import contextlib
import sqlite3
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.measure import Figure, cost_of, each, progress, ratio_at_most
from bench.scene import APP, USER, used_bytes
from sqlalchemy import create_engine, text

from turnwise import Runner, SqlSessionStore, agent
from turnwise.facts.events import Actions, Event, Rewind
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.agent import Agent
from turnwise.testing.postgres import new_postgres_database

PLAIN_BYTES, ROUTED_BYTES = 4 * 1024, 5 * 1024
GROWTH = 1.2
REWIND_MS, FORK_MS, WORST_MS = 20.0, 50.0, 250.0
AGENTS = 1_000
TRIES = 7
MESSAGE = f"message number 12 {'asks for an order that did not come in time, and where it is now ':.<82}"
"""A message of 100 characters. Patterns look for its number."""
ANSWER = ": your order left our house on Friday and should be with you tomorrow, if nothing happens. ".ljust(283, ".")


class Sizes(NamedTuple):
    """The numbers of events and of turns."""

    short: int = 10
    middle: int = 10_000
    long: int = 100_000
    longest: int = 500_000
    turns: int = 1_000


QUICK = Sizes(middle=1_000, long=5_000, longest=20_000, turns=100)

_SERIES = "WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < :count)"
_OF_SESSION = "s.app = :app AND s.user_id = :user AND s.session_id = :session"
# The session has two turns of two events; each copied event is one of the second turn.
_COPY_EVENTS = f"""
INSERT INTO turnwise_events (owner, log, sequence, event_id, invocation_id, author, body) {_SERIES}
SELECT e.owner, e.log, 4 + n, 'e-' || n, 'i-' || ((n - 1) / 2), e.author, e.body FROM series
JOIN turnwise_sessions s ON {_OF_SESSION}
JOIN turnwise_events e ON e.owner = s.owner AND e.log = s.number AND e.sequence = 4 - n % 2
"""
_COPY_DECISIONS = f"""
INSERT INTO turnwise_decisions (owner, session, sequence, id, app, user_id, invocation_id, agent, method, confidence, outcome,
fingerprint, tenth, state, changed_at, created_at, text, record) {_SERIES}
SELECT d.owner, d.session, 3 + 2 * n, d.id + n, d.app, d.user_id, 'i-' || (n - 1), d.agent, d.method, d.confidence, d.outcome,
d.fingerprint, d.tenth, d.state, d.changed_at, d.created_at, d.text, d.record FROM series
JOIN turnwise_sessions s ON {_OF_SESSION}
JOIN turnwise_decisions d ON d.owner = s.owner AND d.session = s.number AND d.sequence = 3
"""
_COPY_SNAPSHOTS = f"""
INSERT INTO turnwise_snapshots (owner, log, sequence, updated_at, head, state) {_SERIES}
SELECT s.owner, s.number, 50 * n, s.updated_at, s.head, s.state FROM series JOIN turnwise_sessions s ON {_OF_SESSION}
"""
_SET_LAST = f"UPDATE turnwise_sessions AS s SET last_sequence = :last WHERE {_OF_SESSION}"


def _answer(message: str) -> str:
    """Returns an answer of 300 characters."""
    return message[:17] + ANSWER


@agent
async def echo(message: str) -> str:
    return _answer(message)


def _routed() -> Agent:
    def topic(number: int) -> Agent:
        @agent(name=f"topic {number}", description=f"Knows topic {number}.", patterns=[rf"\bmessage\b.*\b{number}\b"])
        async def answer(message: str) -> str:
            return _answer(message)

        return answer

    @agent(name="front", description="Everything else.", children=[topic(number) for number in range(AGENTS)])
    async def front(message: str) -> str:
        return _answer(message)

    return front


def figures(folder: Path, *, quick: bool) -> list[Figure]:
    """Returns the figures with their bounds."""
    return asyncio.run(_figures(folder, QUICK if quick else Sizes()))


async def _figures(folder: Path, sizes: Sizes) -> list[Figure]:
    with progress("The store's format", 4) as step:
        found = [await _size("a function agent", echo, folder / "plain.db", sizes, PLAIN_BYTES)]
        found.append(await _size(f"routed among {AGENTS:,} agents", _routed(), folder / "routed.db", sizes, ROUTED_BYTES))
        step("size")
        found += await _growth(folder / "growth.db", sizes)
        step("growth")
        for name, url in (("SQLite", f"sqlite:///{folder}/long.db"), ("PostgreSQL", new_postgres_database())):
            found += await _long(name, url, sizes)
            step(name)
    return found


@contextlib.asynccontextmanager
async def _runner(root: Agent, url: str) -> AsyncIterator[Runner]:
    runner = Runner(root, app=APP, store=SqlSessionStore(url))
    try:
        yield runner
    finally:
        await runner.close()


async def _next_turn(runner: Runner, sessions: Iterator[str]) -> None:
    await _turn(runner, next(sessions))


async def _turn(runner: Runner, session: str) -> None:
    await (await runner.start(MESSAGE, user=USER, session=session)).result()


async def _size(what: str, root: Agent, path: Path, sizes: Sizes, bound: int) -> Figure:
    bytes_ = await _bytes_of_turn(root, path, "s", sizes)
    return Figure(f"bytes of a turn, {what}", f"{bytes_:,}", "", f"≤ {bound:,}", bytes_ <= bound)


async def _bytes_of_turn(root: Agent, path: Path, session: str, sizes: Sizes) -> int:
    url, count = f"sqlite:///{path}", sizes.turns
    async with _runner(root, url) as runner:
        await each(count, lambda: _turn(runner, session))
    before = _bytes_without_words(path)
    async with _runner(root, url) as runner:
        await each(count, lambda: _turn(runner, session))
    return round((_bytes_without_words(path) - before) / count)


def _bytes_without_words(path: Path) -> int:
    """Returns the size of a database without its index of words."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        ask = "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name LIKE 'turnwise_words%'"
        return used_bytes(path) - int(connection.execute(ask).fetchone()[0])


async def _growth(path: Path, sizes: Sizes) -> list[Figure]:
    url = f"sqlite:///{path}"
    await _build(url, "long", sizes.long)
    costs: dict[str, list[float]] = {"short": [], "long": []}
    async with _runner(echo, url) as runner:
        for number in range(2 * TRIES + 2):
            kind = ("short", "long")[number % 2]
            sessions = ["long"] * (sizes.turns // 5) if kind == "long" else [f"short {number}"] * (sizes.turns // 5)
            order = iter(sessions)
            await _turn(runner, sessions[0])
            cost = await cost_of(partial(each, sizes.turns // 5, partial(_next_turn, runner, order)))
            if number > 1:
                costs[kind].append(cost.cpu)
    short, long = (statistics.median(costs[kind]) for kind in ("short", "long"))
    few, many = [await _bytes_of_turn(echo, path, session, sizes) for session in ("fresh", "long")]
    return [
        Figure("CPU ms of a turn in a short session", f"{short:.2f}"),
        ratio_at_most(f"CPU of a turn at {sizes.long:,} events, to that of a short session", long / short, GROWTH),
        ratio_at_most(f"bytes of a turn at {sizes.long:,} events, to those of a short session", many / few, 1.05),
    ]


async def _build(url: str, session: str, count: int) -> None:
    """Creates a session of that many events."""
    async with _runner(echo, url) as runner:
        for _ in range(2):
            await _turn(runner, session)
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    at = {"app": APP, "user": USER, "session": session}
    with engine.begin() as connection:
        connection.execute(text(_COPY_EVENTS), at | {"count": count - 4})
        connection.execute(text(_COPY_DECISIONS), at | {"count": count // 2 - 2})
        connection.execute(text(_COPY_SNAPSHOTS), at | {"count": count // 50})
        connection.execute(text(_SET_LAST), at | {"last": count})
    engine.dispose()


async def _long(name: str, url: str, sizes: Sizes) -> list[Figure]:
    await _build(url, "longest", sizes.longest)
    await _build(url, "middle", sizes.middle)
    store, figures_ = SqlSessionStore(url), list[Figure]()
    longest, middle = SessionKey(APP, USER, "longest"), SessionKey(APP, USER, "middle")
    for label, first in (("the last turn", sizes.longest - 1), ("the second half", sizes.longest // 2 + 51)):
        rewound = await _medians(partial(_rewind, store, longest, first))
        figures_.append(_ms(f"{name}: rewind of {label} of {sizes.longest:,} events, ms", rewound, REWIND_MS))
    numbers = iter(range(TRIES))
    forked = await _medians(lambda: store.fork(middle, f"copy {next(numbers)}"))
    figures_.append(_ms(f"{name}: fork of {sizes.middle:,} events, ms", forked, FORK_MS))
    await _build(url, "whole", sizes.longest)
    whole = SessionKey(APP, USER, "whole")
    works: dict[str, Callable[[], Awaitable[object]]] = {
        "fork": lambda: store.fork(whole, "copy of whole"),
        "delete": lambda: _delete_all(store, [SessionKey(APP, USER, "copy of whole"), whole]),
    }
    for work, do in works.items():
        worst, seconds = await _worst_turn(url, do)
        label = f"{name}: another session's worst turn in a {work} of {sizes.longest:,} events ({seconds:.1f} s), ms"
        figures_.append(_ms(label, worst, WORST_MS))
    await store.close()
    return figures_


async def _delete_all(store: SqlSessionStore, keys: list[SessionKey]) -> None:
    for key in keys:
        await store.delete(key)


async def _rewind(store: SqlSessionStore, key: SessionKey, first: int) -> Session:
    session, issuer = await store.open(key), SystemIssuer()
    assert session is not None
    action = Actions(rewind=Rewind(from_sequence=first, invocation_id="i"))
    event = Event(id=issuer.new_id("event"), author="user", invocation_id="i", created_at=issuer.now(), actions=action)
    return await store.append(session, [event])


async def _medians(work: Callable[[], Awaitable[object]]) -> float:
    """Returns the median of the wall time in ms."""
    costs = []
    for _ in range(TRIES):
        began = time.perf_counter()
        await work()
        costs.append(1_000 * (time.perf_counter() - began))
    return statistics.median(costs)


async def _worst_turn(url: str, work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Returns the longest turn of another session, in ms, while another store works, and the seconds of that work."""
    async with _runner(echo, url) as runner:
        await each(5, lambda: _turn(runner, "other"))
        began = time.perf_counter()
        working, turns = asyncio.ensure_future(work()), list[float]()
        while not working.done() or not turns:
            start = time.perf_counter()
            await _turn(runner, "other")
            turns.append(time.perf_counter() - start)
        seconds = time.perf_counter() - began
        await working
    return 1_000 * max(turns), seconds


def _ms(label: str, value: float, bound: float) -> Figure:
    return Figure(label, f"{value:.1f}", "", f"≤ {bound:g}", value <= bound)
