"""What survives when processes are killed, frozen and cut off: real processes, on SQLite and on PostgreSQL."""

import asyncio
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure import Figure, Step, exactly, progress, report

# The processes, and the checks of their logs, are those of the tests.
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from restate_play import RestateServer, restate_server
from survival_play import meetings
from survival_play.checks import CHECKS, Findings, answer_seconds, repeats, seconds_after_return, waits
from survival_play.meetings import Meeting
from survival_play.storm import Breaking, Outcome, Plan, forgetting, freezes, kills, outages, storm

from turnwise.testing.postgres import PostgresServer, new_postgres_database

MEDIAN_SECONDS = 3.5
"""The time from a kill to half of the answers."""
MORE_SECONDS = 2.0
"""How much longer than the lease an answer may take if its process was killed."""
AFTER_RETURN_SECONDS = 10.0
"""How long after the engine's return the answers may come that were waited for then."""
SHOWN = 20


class Scale(NamedTuple):
    """How much is broken. seed: of the random moments and victims. ttl, pause, down and still are in seconds.

    down: how long the database is away each time; the last time longer than a store retries.
    """

    seed: int
    kills: int = 100
    freezes: int = 10
    rounds: int = 5
    ttl: float = 2.0
    pause: tuple[float, float] = (0.5, 2.0)
    down: tuple[float, ...] = (0.5, 2.0, 17.0)
    still: float = 5.0
    cuts: int = 50
    burst: int = 20
    frozen: float = 30.0
    """For how long the last process stands still, at least."""
    engine: bool = False
    """Whether a Restate server schedules the work under traffic."""

    def plan(self, breakages: int) -> Plan:
        return Plan(breakages=breakages, ttl=self.ttl, pause=self.pause, seed=self.seed, frozen=self.frozen)


def quick(seed: int, *, engine: bool = False) -> Scale:
    return Scale(
        seed,
        engine=engine,
        kills=10,
        freezes=2,
        rounds=1,
        ttl=1.0,
        pause=(0.4, 1.2),
        down=(0.2, 0.5, 1.0),
        still=2.0,
        frozen=0.0,
    )


class Store(NamedTuple):
    """A kind of database, and a place for each part's data."""

    name: str
    folder: Path

    def place(self, part: str) -> tuple[str, Path]:
        """The URL of an empty database, and an empty folder."""
        folder = self.folder / f"{part}-{self.name}"
        folder.mkdir()
        return (new_postgres_database() if self.name == "PostgreSQL" else f"sqlite:///{folder}/sessions.db"), folder


class Part(NamedTuple):
    """A table of the report, and the failures."""

    title: str
    figures: list[Figure]
    problems: Sequence[str]


def kill(store: Store, scale: Scale) -> Part:
    """Kills processes with SIGKILL at random moments of mixed traffic."""
    plan = scale.plan(scale.kills)
    with progress(f"Kills, {store.name}", scale.kills) as step:
        outcome = _storm(store, "kill", scale, plan, lambda _: kills(plan), step)
    found = outcome.findings
    waited = waits(found)
    bound = plan.ttl + MORE_SECONDS
    figures = [
        *_about(outcome),
        exactly("errors that callers saw", len(found.troubles), 0),
        Figure("answers that a killed process had begun", f"{len(waited.seconds):,}"),
        _seconds("from the kill to the stored answer", waited.seconds, bound),
        _median("half of them within, s", waited.seconds, MEDIAN_SECONDS),
        Figure("most attempts of one message", f"{waited.attempts}"),
        Figure("answers taken over from living processes", f"{waited.from_living:,}"),
    ]
    return Part(f"{scale.kills} × kill -9, {store.name}{_scene(plan)}", figures, outcome.problems)


def frozen(store: Store, scale: Scale) -> Part:
    """Freezes processes past their leases and wakes them up: at a chosen moment, and under traffic."""
    plan = scale.plan(scale.freezes)
    with progress(f"Freezes, {store.name}", scale.rounds + scale.freezes) as step:
        met = _rounds(store, "frozen", scale, step, lambda url, folder: meetings.frozen_holder(url, folder, 1.0))
        outcome = _storm(store, "freeze", scale, plan, lambda _: freezes(plan), step)
    refused = sum(len(meeting.findings.refusals) for meeting in met)
    figures = [
        Figure("one by one: holders woken up in the middle of their answer", f"{len(met)}"),
        Figure("appends and renewals refused to them", f"{refused}", "", f"≥ {len(met)}", refused >= len(met)),
        exactly("of their answers shown, or other things wrong there", len(_problems(met)), 0),
        *_about(outcome),
        Figure("errors that callers saw", f"{len(outcome.findings.troubles):,}"),
        Figure("answers taken over from frozen processes", f"{waits(outcome.findings).from_living:,}"),
    ]
    return Part(
        f"{scale.freezes} × SIGSTOP past the lease, the last for {scale.frozen:g} s, {store.name}{_scene(plan)}",
        figures,
        [*_problems(met), *outcome.problems],
    )


def outage(store: Store, scale: Scale) -> Part:
    """Kills the database with SIGKILL under load and restarts it; at the end freezes it."""
    plan = scale.plan(len(scale.down))
    server = PostgresServer()
    try:
        with progress("Outages, PostgreSQL", len(scale.down) + 1) as step:
            folder = store.folder / "outage"
            folder.mkdir()
            breaking = outages(plan, server, down=scale.down, frozen=scale.still)
            outcome = asyncio.run(storm(server.new_database(), folder, plan, breaking, step))
    finally:
        server.close()
    figures = [
        *_about(outcome),
        Figure("typed errors that callers saw, and tried again", f"{len(outcome.findings.troubles):,}"),
    ]
    away = ", ".join(f"{seconds:g}" for seconds in scale.down)
    what = f"kill -9, down for {away} s, then frozen for {scale.still:g} s"
    return Part(f"PostgreSQL itself: {what}{_scene(plan)}", figures, outcome.problems)


def burst(store: Store, scale: Scale) -> Part:
    """Sends messages for one session to several processes at the same moment: different ones and the same one."""
    with progress(f"Bursts, {store.name}", 2 * scale.rounds) as step:
        many = _rounds(store, "burst", scale, step, lambda url, folder: meetings.burst(url, folder, scale.burst))
        same = _rounds(store, "same", scale, step, lambda url, folder: meetings.same_message(url, folder, 5))
    answered = sum(answer["end"] == "completed" for meeting in many for answer in meeting.given)
    callers = [answers for meeting in same for answers in meeting.given]
    done = sum(len(meeting.findings.work) for meeting in same)
    figures = [
        exactly(f"{scale.burst} messages at once on one session from 4 processes, answered", answered, scale.burst * len(many)),
        exactly("out of order", _count("messages out of order", many), 0),
        exactly("interleaved", _count("interleavings", many), 0),
        exactly("the same message from 4 processes at once, callers answered", sum(map(len, callers)), 4 * len(callers)),
        exactly("its two pieces of work, done", done, 2 * len(callers)),
    ]
    return Part(f"Bursts on {store.name}", figures, _problems([*many, *same]))


def reattach(store: Store, scale: Scale) -> Part:
    """Disconnects readers of a long answer again and again."""
    with progress(f"Readers, {store.name}", 2 * scale.rounds) as step:
        steady = _rounds(store, "read", scale, step, lambda url, folder: meetings.cut_reader(url, folder, scale.cuts))
        killed = _rounds(
            store, "read-on", scale, step, lambda url, folder: meetings.cut_reader(url, folder, scale.cuts, kill_holder=True)
        )
    here, there = ([meeting.given[place] for meeting in steady] for place in (0, 1))
    figures = [
        exactly("readers cut", sum(len(meeting.given) for meeting in [*steady, *killed]), 3 * scale.rounds),
        exactly(
            "times", sum(saw["cuts"] for meeting in [*steady, *killed] for saw in meeting.given), 3 * scale.rounds * scale.cuts
        ),
        exactly("of them that did not see every stored event once, in order", len(_problems([*steady, *killed])), 0),
        Figure("stored events each saw, of one attempt", f"{len(here[0]['seen'])}"),
        Figure("partial events seen in the same process / in another", f"{_partials(here)} / {_partials(there)}"),
    ]
    return Part(f"Readers cut {scale.cuts} times on {store.name}", figures, _problems([*steady, *killed]))


def poison(store: Store, scale: Scale) -> Part:
    """Sends a message that kills every process that answers it."""
    with progress(f"Poison, {store.name}", scale.rounds) as step:
        met = _rounds(store, "poison", scale, step, lambda url, folder: meetings.poison(url, folder, 1.0, 3))
    given = [answer for meeting in met for answer in meeting.given]
    figures = [
        exactly("processes it killed before it ended limit:attempts", sum(len(m.findings.kills) for m in met), 3 * len(met)),
        exactly("other messages answered", sum(answer["end"] == "completed" for answer in given), 4 * len(met)),
    ]
    return Part(f"A poisonous message on {store.name}", figures, _problems(met))


def forgetful(store: Store, scale: Scale) -> Part:
    """Kills the engine under traffic and restarts it, every other time without its storage."""
    plan = scale.plan(4)
    with progress(f"Engine, {store.name}", 4) as step:
        outcome = _storm(store, "forgetful", scale, plan, lambda server: _forgetting(plan, server, scale), step)
    away = ", ".join(f"{seconds:g}" for seconds in scale.down[:2] * 2)
    figures = [
        *_about(outcome),
        exactly("errors that callers saw", len(outcome.findings.troubles), 0),
        _seconds("from the engine's return to what waited then", seconds_after_return(outcome.findings), AFTER_RETURN_SECONDS),
    ]
    return Part(f"The engine: kill -9, down for {away} s, {store.name}{_scene(plan)}", figures, outcome.problems)


PARTS: dict[str, Callable[[Store, Scale], Part]] = {
    part.__name__: part for part in (kill, frozen, outage, burst, reattach, poison, forgetful)
}
ENGINE_PARTS = (kill, frozen, forgetful)
"""The parts with traffic that an engine can schedule."""


def survival(names: Sequence[str], scale: Scale, folder: Path) -> bool:
    """Runs the selected parts, or all, and prints their tables. Returns whether every bound was kept."""
    kept = True
    for name, part in PARTS.items():
        if names and name not in names:
            continue
        for store in (Store("SQLite", folder), Store("PostgreSQL", folder)):
            if part is outage and store.name == "SQLite":
                continue
            if part not in ENGINE_PARTS if scale.engine else part is forgetful:
                continue
            try:
                done = part(store, scale)
            except Exception as problem:
                # The other parts still run.
                traceback.print_exception(problem)
                done = Part(f"{name} on {store.name}", [Figure("came to its end", "no", "", "yes", False)], [])
            report(done.title, done.figures)
            for line in done.problems[:SHOWN]:
                print(f"  {line}", file=sys.stderr)
            kept = kept and not done.problems and not any(figure.kept is False for figure in done.figures)
    return kept


def _storm(
    store: Store, part: str, scale: Scale, plan: Plan, breaking: Callable[[RestateServer | None], Breaking], step: Step
) -> Outcome:
    url, folder = store.place(part)
    if not scale.engine:
        return asyncio.run(storm(url, folder, plan, breaking(None), step))
    place = folder / "engine"
    place.mkdir()
    with restate_server(place) as server:
        return asyncio.run(storm(url, folder, plan, breaking(server), step, engine=server.engine))


def _forgetting(plan: Plan, server: RestateServer | None, scale: Scale) -> Breaking:
    assert server is not None, "this part only runs with an engine"
    return forgetting(plan, server, down=scale.down[:2] * 2)


def _rounds(
    store: Store, part: str, scale: Scale, step: Step, meeting: Callable[[str, Path], Coroutine[Any, Any, Meeting]]
) -> list[Meeting]:
    met = []
    for number in range(scale.rounds):
        met.append(asyncio.run(meeting(*store.place(f"{part}-{number}"))))
        step(f"round {number + 1}")
    return met


def _problems(met: Sequence[Meeting]) -> list[str]:
    return [problem for meeting in met for problem in meeting.problems]


def _count(check: str, met: Sequence[Meeting]) -> int:
    return sum(len(CHECKS[check](meeting.findings)) for meeting in met)


def _partials(saw: Sequence[dict[str, int]]) -> int:
    return sum(reader["partials"] for reader in saw)


def _about(outcome: Outcome) -> Iterator[Figure]:
    """The bounds of every scenario."""
    found = outcome.findings
    accepted = sum(len(log.accepted) for log in found.logs)
    again = len(found.sends) - len({line["id"] for line in found.sends})
    done = repeats(found)
    yield Figure("processes in all", f"{outcome.processes}")
    yield Figure("messages accepted / acknowledged / sent again", f"{accepted:,} / {_acknowledged(found):,} / {again:,}")
    yield Figure("messages accepted a second", f"{accepted / outcome.seconds:.0f}")
    for name, check in CHECKS.items():
        yield exactly(name, len(check(found)), 0)
    yield Figure("work done again outside of steps", f"{done.outside:,}")
    yield Figure("work done again in steps, cut off before its record", f"{done.unrecorded:,}")
    yield Figure("work done again in steps, late by a process that stood still", f"{done.late:,}")
    yield _seconds("from the acknowledgement to the stored answer, queue and all", answer_seconds(found))


def _acknowledged(found: Findings) -> int:
    return len({line["id"] for line in found.acks})


def _seconds(name: str, seconds: Sequence[float], bound: float | None = None) -> Figure:
    if not seconds:
        return Figure(f"{name}, s", "none")
    shown = f"{seconds[len(seconds) // 2]:.2f} / {seconds[-1]:.2f}"
    if bound is None:
        return Figure(f"{name}, p50 / max s", shown)
    return Figure(f"{name}, p50 / max s", shown, "", f"≤ {bound:g}", seconds[-1] <= bound)


def _median(name: str, seconds: Sequence[float], bound: float) -> Figure:
    middle = seconds[len(seconds) // 2] if seconds else 0.0
    return Figure(name, f"{middle:.2f}", "", f"≤ {bound:g}", middle <= bound)


def _scene(plan: Plan) -> str:
    return f" ({plan.processes} processes, {plan.sessions} sessions, lease {plan.ttl:g} s, seed {plan.seed})"
