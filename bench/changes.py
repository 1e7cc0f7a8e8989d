"""Agents that change while messages are answered: decisions with and without changes, memory, and how long heads are away.

Agents and their vectors are those of `scale`. Rounds with and without changes take turns, so that both see the same machine.
"""

import asyncio
import gc
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from bench import definitions
from bench.measure import Figure, progress
from bench.scale import Directions, made_up

from turnwise.cli.serve import tune_garbage_collector
from turnwise.selection.meaning import Meaning

FLAT, REFITS = 1.05, 2.0
"""The most memory after many changes, as a ratio; and the longest time between new heads, in refits. A refit that is lost
makes it two."""
_EXAMPLES = 10


class Plan(NamedTuple):
    agents: int = 1_000
    defined: int = 10_000
    """Agents in the database."""
    rounds: int = 8
    messages: int = 200
    """Decisions of a round."""
    changes: int = 1_000
    seconds: float = 300.0
    """How long a change comes each second."""


QUICK = Plan(agents=200, defined=1_000, rounds=4, messages=100, changes=200, seconds=10.0)


class Changing:
    """A tree whose agents change one by one, and the meaning that serves."""

    def __init__(self, plan: Plan) -> None:
        tree, messages = made_up(plan.agents, _EXAMPLES, min(plan.agents, 1_000))
        self._cards = list(tree)
        self.texts = [text for text, _ in messages]
        self.meaning = Meaning(tree, Directions())
        self._count = 0

    async def change(self) -> None:
        """Serves one agent with another example, as a swap does: prepared aside in a thread."""
        self._count += 1
        place = 1 + self._count % (len(self._cards) - 1)
        card = self._cards[place]
        self._cards[place] = card.replace(examples=(*card.examples[:_EXAMPLES], f"please do the change {self._count}"))
        new = self.meaning.changed(self.meaning.tree.replaced([self._cards[place]]))
        await asyncio.to_thread(new.prepare)
        self.meaning = new

    @property
    def has_heads(self) -> bool:
        return self.meaning.fingerprint.endswith("-fitted")


@asynccontextmanager
async def _each_second(changing: Changing) -> AsyncIterator[None]:
    async def change() -> None:
        while True:
            await changing.change()
            await asyncio.sleep(1.0)

    task = asyncio.create_task(change())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _decided(changing: Changing, plan: Plan, start: int) -> list[float]:
    """Returns the milliseconds of each reading of a message that was not read before."""
    costs = []
    for number in range(plan.messages):
        text = f"{changing.texts[(start + number) % len(changing.texts)]} {start + number}"
        began = time.perf_counter()
        await changing.meaning.read([text])
        costs.append(1_000 * (time.perf_counter() - began))
        await asyncio.sleep(0.005)
    return costs


def _p99(costs: list[float]) -> float:
    return sorted(costs)[len(costs) * 99 // 100]


async def _decisions(changing: Changing, plan: Plan) -> list[Figure]:
    quiet: list[float] = []
    busy: list[float] = []
    for number in range(plan.rounds):
        quiet += await _decided(changing, plan, 2 * number * plan.messages)
        async with _each_second(changing):
            busy += await _decided(changing, plan, (2 * number + 1) * plan.messages)
        await changing.meaning.fitted()
    ratio = _p99(busy) / _p99(quiet)
    name = f"p99 of a decision, {plan.agents:,} agents, a change each second"
    return [
        Figure(
            f"{name}, ms",
            f"{_p99(busy):.2f}",
            f"{_p99(quiet):.2f}",
            f"≤ {definitions.P99_RATIO:g}×",
            ratio <= definitions.P99_RATIO,
        )
    ]


def _resident() -> float:
    """Returns the megabytes of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096 / 1e6


async def _memory(changing: Changing, plan: Plan) -> list[Figure]:
    for _ in range(plan.changes // 10):
        await changing.change()
    await changing.meaning.fitted()
    before = _resident()
    for _ in range(plan.changes):
        await changing.change()
    await changing.meaning.fitted()
    after = _resident()
    name = f"memory after {plan.changes:,} more changes, MB"
    return [Figure(name, f"{after:.0f}", f"{before:.0f}", f"≤ {FLAT:g}×", after <= FLAT * before)]


async def _heads(changing: Changing, plan: Plan) -> list[Figure]:
    """Measures a fit alone, then how long nobody has newer heads while a change comes each second."""
    await changing.change()
    began = time.perf_counter()
    await changing.meaning.fitted()
    alone = time.perf_counter() - began
    base, since, times = changing.meaning._fits.base, time.perf_counter(), list[float]()
    async with _each_second(changing):
        until = time.perf_counter() + plan.seconds
        while time.perf_counter() < until:
            await asyncio.sleep(0.05)
            if changing.meaning._fits.base is not base:
                base, now = changing.meaning._fits.base, time.perf_counter()
                times.append(now - since)
                since = now
    longest, middle = max(*times, time.perf_counter() - since), statistics.median(times)
    name = f"longest time between new heads, a change each second for {plan.seconds:g} s, s"
    return [
        Figure("a fit alone, s", f"{alone:.1f}"),
        Figure(f"median time between new heads ({len(times)} refits), s", f"{middle:.1f}"),
        Figure(name, f"{longest:.1f}", "", f"≤ {REFITS:g} refits", longest <= REFITS * middle),
    ]


async def _measured(plan: Plan) -> list[Figure]:
    changing = Changing(plan)
    changing.meaning.prepare()
    await changing.meaning.fitted()
    tune_garbage_collector()  # as the server does
    figures = []
    with progress("Agents that change", 3) as step:
        for part in (_decisions, _memory, _heads):
            figures += await part(changing, plan)
            step(part.__name__.strip("_"))
    changing.meaning.close()
    return figures


def changes(folder: Path, *, quick: bool = False) -> list[Figure]:
    """The figures with their bounds."""
    plan = QUICK if quick else Plan()
    return [
        *definitions.messages(folder / "messages", plan.agents, plan.rounds),
        *asyncio.run(_measured(plan)),
        *definitions.figures(folder / "many", plan.defined),
    ]
