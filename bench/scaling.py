"""How many workers an installation carries: simulated against a fake clock, with the costs of a real PostgreSQL."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from bench.measure import Figure, exactly
from bench.simulation import Counts, Database, Scene, simulated

from turnwise import SqlSessionStore
from turnwise.facts.messages import Message
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import Lease
from turnwise.stores.sql.postgres import CONNECTIONS
from turnwise.testing.postgres import new_postgres_database
from turnwise.testing.session_store_cases.making import asked, fresh_key, message

FLEETS, QUICK_FLEETS = (1, 10, 100), (1, 4)
DATABASE = Database()
OTHER_CONNECTIONS = 2
"""Those of a process beside its calls: one listens for signals, one stores heartbeats."""
DEFAULT_CONNECTIONS = 100
"""`max_connections` of a PostgreSQL that nobody configured."""
BUSY, QUICK_BUSY = (500, 2_000), (50, 200)
HOLDERS, QUICK_HOLDERS = (100, 400), (10, 40)
LOOKS = 200
TICKS = os.sysconf("SC_CLK_TCK")
ROUNDS_PER_SECOND, BEATS_PER_SECOND, READS_PER_SECOND = 1.0, 1.0, 1.0
"""How often each process looks for due sessions, and reads all heartbeats; how often a reader looks, beside signals."""
HELD_SECONDS = 3_600.0
LARGEST = 100_000
RECOVERED_SECONDS = 6.0

Load = Callable[[int], float]
"""The part of what there is that so many workers use; above 1, it is used up."""


class Fleet(NamedTuple):
    """A simulated number of workers."""

    scene: Scene
    counts: Counts

    @property
    def messages(self) -> int:
        return len(self.counts.accepted)

    @property
    def calls_of_a_turn(self) -> float:
        return sum(self.counts.calls.values()) / self.messages

    @property
    def commits_of_a_turn(self) -> float:
        return self.counts.writes / self.messages


def fleets(*, quick: bool) -> Iterator[Figure]:
    """Yields what workers do to the database and the engine, and how fast they recover, by the fake clock."""
    for count in QUICK_FLEETS if quick else FLEETS:
        for engine in (False, True):
            scene = Scene(count, engine, deaths=count // 10)
            yield from _of_fleet(Fleet(scene, simulated(scene, DATABASE)))


def _of_fleet(fleet: Fleet) -> Iterator[Figure]:
    scene, counts = fleet.scene, fleet.counts
    name = f"{scene.workers} × {'engine' if scene.engine else 'local'}"
    yield Figure(f"{name}: messages / a second", f"{fleet.messages:,} / {fleet.messages / counts.seconds:,.0f}")
    yield exactly(f"{name}: accepted without an answer", len(counts.open), 0)
    waits = sorted(counts.begun[id_] - counts.sent[id_] for id_ in counts.begun if id_ not in counts.broken)
    yield Figure(f"{name}: from the message to its agent, p50 / max ms", f"{_shown(waits, 1000)}")
    yield Figure(f"{name}: calls of the store / commits a turn", f"{fleet.calls_of_a_turn:.1f} / {fleet.commits_of_a_turn:.1f}")
    rounds = sum(counts.at_end.get(call, 0) for call in ("due", "expired", "next_expiry", "all")) / counts.seconds
    yield Figure(f"{name}: looks for due work a second, all processes", f"{rounds:,.0f}")
    busy = 100 * counts.busy / counts.span / DATABASE.cores
    yield Figure(f"{name}: cores of the database used, of {DATABASE.cores}, %", f"{busy:.0f}")
    if scene.engine:
        each = counts.engine_calls / fleet.messages
        yield Figure(f"{name}: calls of the engine a message / refused", f"{each:.2f} / {counts.refused:,}")
    if counts.broken:
        again = sorted(counts.finished[id_] - at - scene.thinking for id_, at in counts.broken.items())
        shown, bound = _shown(again, 1), f"≤ {RECOVERED_SECONDS:g}"
        what = f"{name}: {scene.deaths} die, {len(again)} answers later, beyond the agent's time, p50 / max s"
        yield Figure(what, shown, "", bound, again[-1] <= RECOVERED_SECONDS)


def _shown(ordered: Sequence[float], factor: float) -> str:
    return f"{factor * ordered[len(ordered) // 2]:,.1f} / {factor * ordered[-1]:,.1f}" if ordered else "none"


class Costs(NamedTuple):
    """The measured CPU of the database for a call, in milliseconds, by the number of rows that it passes."""

    due: Mapping[int, float]
    """By busy sessions."""
    holders: Mapping[int, float]
    """By processes."""
    commit: float
    """A message's acceptance, alone."""
    read: float
    """A look at a session."""


def limits(*, quick: bool) -> Iterator[Figure]:
    """Yields what each part of an installation costs, and the number of workers at which it is used up."""
    costs = asyncio.run(_measured(QUICK_BUSY if quick else BUSY, QUICK_HOLDERS if quick else HOLDERS))
    scene = Scene(1, engine=True)
    per_worker = scene.rate * scene.thinking
    yield Figure("a message's acceptance / a look at its session, ms", f"{costs.commit:.2f} / {costs.read:.2f}")
    for count, cost in costs.due.items():
        yield Figure(f"a look for due work among {count:,} busy sessions, ms", f"{cost:.2f}")
    for count, cost in costs.holders.items():
        yield Figure(f"a look at the heartbeats of {count:,} processes, ms", f"{cost:.2f}")
    of_each = CONNECTIONS + OTHER_CONNECTIONS
    yield _breaks(f"connections: {DEFAULT_CONNECTIONS}, the default", lambda n: n * of_each / DEFAULT_CONNECTIONS)
    due = _line(costs.due)
    looks = _one_core(lambda n: n * ROUNDS_PER_SECOND * due(n * per_worker))
    yield _breaks(f"looks for due work: one core, {per_worker:.0f} answers for each worker", looks)
    yield _breaks(
        "looks of readers, one a second for each answer: one core",
        _one_core(lambda n: n * per_worker * READS_PER_SECOND * costs.read),
    )
    holders = _line(costs.holders)
    yield _breaks("heartbeats: one core", _one_core(lambda n: n * BEATS_PER_SECOND * holders(n)))
    yield _breaks(
        f"commits: {DATABASE.cores} cores at {1000 * DATABASE.write:g} ms, 3 a message",
        lambda n: 3 * scene.rate * n * DATABASE.write / DATABASE.cores,
    )


class _Line(NamedTuple):
    """A straight line through two measurements."""

    start: float
    slope: float

    def __call__(self, rows: float) -> float:
        return self.start + self.slope * rows


def _line(costs: Mapping[int, float]) -> _Line:
    (few, low), (many, high) = sorted(costs.items())
    slope = max(0.0, (high - low) / (many - few))
    return _Line(max(0.0, low - slope * few), slope)


def _one_core(milliseconds_a_second: Load) -> Load:
    return lambda workers: milliseconds_a_second(workers) / 1000


def _breaks(name: str, load: Load) -> Figure:
    """The smallest number of workers whose load is more than there is."""
    low, high = 1, LARGEST
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if load(middle) > 1 else (middle + 1, high)
    at_a_hundred = f"{100 * load(100):,.0f} % at 100 workers"
    return Figure(f"{name}: used up at", f"{low:,} workers; {at_a_hundred}" if low < LARGEST else f"never; {at_a_hundred}")


async def _measured(busy: Sequence[int], holders: Sequence[int]) -> Costs:
    url = new_postgres_database()
    store, app, meter = SqlSessionStore(url), fresh_key().app, _Meter(url)
    try:
        commit, due, beats, known = 0.0, dict[int, float](), dict[int, float](), 0
        for count in busy:
            before = meter.seconds()
            for number in range(known, count):
                await store.inbox.accept(_key(app, number), message(id_="m"), create=True, limit=9)
            commit, known = 1000 * (meter.seconds() - before) / (count - known), count
            due[count] = await meter.each(lambda: store.leases.due(app))
        read, known = await meter.each(lambda: store.open(_key(app, 0))), 0
        for count in holders:
            for number in range(known, count):
                await _hold(store, app, number)
            known = count
            beats[count] = await meter.each(lambda: store.leases.holders(app))
    finally:
        await store.close()
    return Costs(due, beats, commit, read)


class _Meter:
    """The CPU of a database's processes. What other programs do besides hardly changes it."""

    def __init__(self, url: str) -> None:
        folder = parse_qs(urlsplit(url).query)["host"][0]
        self._postmaster = int((Path(folder) / "postmaster.pid").read_text().split()[0])

    async def each(self, look: Callable[[], Awaitable[object]]) -> float:
        """Returns the CPU of a look in milliseconds."""
        before = self.seconds()
        for _ in range(LOOKS):
            await look()
        return 1000 * (self.seconds() - before) / LOOKS

    def seconds(self) -> float:
        """Returns the CPU of all that live."""
        ticks = 0
        for place in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = place.read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12]) if int(fields[1]) == self._postmaster else 0
        return ticks / TICKS


def _key(app: str, number: int) -> SessionKey:
    return SessionKey(app, f"user-{number}", "s")


async def _hold(store: SqlSessionStore, app: str, number: int) -> None:
    """Has another holder begin an answer in a session of its own."""
    session = await store.create(_key(app, -1 - number))
    sent: Message = message(id_="m")
    await store.begin(session, Lease(f"worker-{number}", HELD_SECONDS), sent, [asked()], queue_limit=None)
