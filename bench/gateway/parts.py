"""The benchmarks of the gateway."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.gateway.load import Loaded, Stream, Target, loaded
from bench.gateway.servers import Server, bare, gateway
from bench.measure import Figure, Step, fsync_ms, progress, ratio_at_least

LEAST = 0.35
GROWTH = 1.05


class Plan(NamedTuple):
    """rounds: of both sides, alternating. each: requests of a connection in one round. streams: concurrent streams. soak:
    seconds.
    """

    rounds: int = 5
    connections: int = 16
    each: int = 100
    streams: int = 500
    soak: float = 180.0


QUICK = Plan(rounds=2, each=30, streams=100, soak=20.0)


def measured(plan: Plan, folder: Path) -> list[Figure]:
    """Runs all of them: comparison with the bare route, concurrent streams, and a soak test."""
    with gateway(folder / "ours") as ours, bare(folder / "bare") as floor:
        with progress("The gateway beside a bare route", 2 * plan.rounds) as step:
            figures = asyncio.run(_beside(plan, ours, floor, step))
        figures.append(Figure("one fsync there, ms", f"{fsync_ms(folder):.2f}"))
        figures += asyncio.run(_streams(plan, ours))
    with gateway(folder / "soak") as ours, progress("Soaking", 10) as step:
        figures += asyncio.run(_soak(plan, ours, step))
    return figures


def _message(server: Server, content: str, prefix: str = "s") -> Target:
    """A target that gives each connection a separate session."""
    headers = {"Authorization": f"Bearer {server.key}"} if server.key else {}
    root = "/api/v1" if server.key else ""
    return Target(server.port, lambda number, _: f"{root}/sessions/{prefix}{number}/messages", {"content": content}, headers)


async def _beside(plan: Plan, ours: Server, floor: Server, step: Step) -> list[Figure]:
    found: dict[str, list[Loaded]] = {"ours": [], "floor": []}
    for number in range(plan.rounds + 1):
        for name, server in (("ours", ours), ("floor", floor))[:: 1 if number % 2 else -1]:
            one = await loaded(_message(server, "Where is my order 12345?"), plan.connections, plan.each)
            if number:  # the first round is a warm-up
                found[name].append(one)
                step(name)
    mine, theirs = (_median(found[name]) for name in ("ours", "floor"))
    at_once = f"{plan.connections} connections"
    return [
        Figure(f"messages a second, {at_once}", f"{mine.per_second:,.0f}", f"{theirs.per_second:,.0f}"),
        ratio_at_least("beside the bare route", mine.per_second / theirs.per_second, LEAST),
        Figure(f"ms p50 / p99, {at_once}", f"{mine.p50:.1f} / {mine.p99:.1f}", f"{theirs.p50:.1f} / {theirs.p99:.1f}"),
    ]


def _median(found: Sequence[Loaded]) -> Loaded:
    return Loaded(*(statistics.median(column) for column in zip(*found, strict=True)))


async def _streams(plan: Plan, ours: Server) -> list[Figure]:
    """Opens that many streams, each of a running answer, and then completes all answers."""
    before = ours.memory
    target = _message(ours, "wait", "stream")
    began = time.perf_counter()
    streams = [await Stream.opened(target, target.path(number, 0)) for number in range(plan.streams)]
    opened, kilobytes = time.perf_counter() - began, 1_000 * (ours.memory - before) / plan.streams
    await loaded(_message(ours, "go", "go"), 1, 1)
    began = time.perf_counter()
    await asyncio.gather(*(stream.answered() for stream in streams))
    answered = time.perf_counter() - began
    return [
        Figure(f"{plan.streams} streams at once: s to open, s to answer all", f"{opened:.1f}, {answered:.1f}"),
        Figure("memory of an open stream with its run, kB", f"{kilobytes:.0f}"),
    ]


async def _soak(plan: Plan, ours: Server, step: Step) -> list[Figure]:
    """Creates new sessions all the time; compares memory after a fifth of the time and at the end."""
    began, memory, count = time.monotonic(), list[float](), 0
    for tenth in range(1, 11):
        while time.monotonic() - began < plan.soak * tenth / 10:
            await loaded(_message(ours, "Where is my order 12345?", f"soak{count}-"), plan.connections, 5)
            count += 1
        memory.append(ours.memory)
        step(f"{memory[-1]:.0f} MB")
    growth = memory[-1] / memory[1]
    messages = count * plan.connections * 5
    return [
        Figure(f"MB after {plan.soak / 5:.0f} s and {plan.soak:.0f} s", f"{memory[1]:.0f}, {memory[-1]:.0f}"),
        Figure(f"growth over {messages:,} messages", f"{growth:.3f}×", "", f"≤ {GROWTH:g}×", growth <= GROWTH),
    ]
