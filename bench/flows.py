"""Overhead of flows: CPU of a turn in chains, fans and diamonds, compared with the same agents without a flow.

The agents are functions that answer at once. A turn is measured from one agent's call to the next. The first and last turns are
compared within one run, because the cost of a turn must not grow with the number of finished turns.
"""

import statistics
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.measure import Figure, progress, ratio_at_most
from bench.sides import QUICK, Plan

from turnwise import AgentContext, Limits, RunConfig, Runner, SqlSessionStore, agent
from turnwise.agents.function import make_card
from turnwise.facts.events import Event
from turnwise.facts.messages import MessageContext
from turnwise.flows.flow import Flow
from turnwise.flows.tasks import Task
from turnwise.ports.agent import Agent

TASKS, QUICK_TASKS, AGENTS = 1_000, 200, 10
OVERHEAD_MS, GROWTH = 2.0, 1.3
"""Bounds: the cost of a turn beyond the agent's bare run, and its growth from the flow's beginning to its end."""
CONFIG = RunConfig(limits=Limits(events=100_000, invocation_seconds=3_600, message_bytes=10_000_000))


class Turn(NamedTuple):
    """CPU of a turn in milliseconds: medians of the first and the last tenth, and the mean of all."""

    first: float
    last: float
    mean: float


class Agents:
    """Agents that record when they are called."""

    def __init__(self) -> None:
        self._marks: list[float] = []
        self.all: Sequence[Agent] = [self._agent(f"agent{number}") for number in range(AGENTS)]

    def _agent(self, name: str) -> Agent:
        @agent(name=name)
        async def work() -> str:
            self._marks.append(time.process_time())
            return "done"

        return work

    def measured(self) -> Turn:
        """The cost of the turns since the last call."""
        turns = [1_000 * (then - now) for now, then in zip(self._marks, self._marks[1:], strict=False)]
        self._marks.clear()
        tenth = len(turns) // 10
        return Turn(statistics.median(turns[:tenth]), statistics.median(turns[-tenth:]), statistics.fmean(turns))


class Bare:
    """Runs its agents one after the other, for that many turns, without a flow."""

    def __init__(self, name: str, agents: Sequence[Agent], turns: int) -> None:
        self.card = make_card({"name": name, "kind": "sequential"})
        self.children, self._turns = tuple(agents), turns

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        for turn in range(self._turns):
            await context.delegate(self.children[turn % AGENTS].card.name, segment=str(turn))
        yield context.event("done")


def _chain(number: int, _: int) -> list[int]:
    return [number - 1] if number else []


def _fan(number: int, count: int) -> list[int]:
    if number == count - 1:
        return list(range(1, number))
    return [0] if number else []


def _diamonds(number: int, _: int) -> list[int]:
    place = number % 4
    if place == 0:
        return _chain(number, 0)
    return [number - place] if place < 3 else [number - 2, number - 1]


SHAPES: Mapping[str, Callable[[int, int], list[int]]] = {"chain": _chain, "fan": _fan, "diamonds": _diamonds}


async def flows(plan: Plan, folder: Path) -> list[Figure]:
    """CPU of a turn of each shape, compared with the bare run."""
    count = QUICK_TASKS if plan == QUICK else TASKS
    turns: dict[str, Turn] = {}
    with progress("Flows", len(SHAPES) + 1) as step:
        for name in ["bare", *SHAPES]:
            agents = Agents()
            root = Bare("root", agents.all, count) if name == "bare" else _flow(SHAPES[name], agents.all, count)
            turns[name] = await _turns(root, agents, folder / f"flow-{name}.db")
            step(name)
    bare = turns.pop("bare")
    figures = []
    for name, turn in turns.items():
        shown = f"{turn.first:.2f} / {turn.last:.2f}"
        figures.append(
            Figure(f"{name} of {count:,}: CPU ms of a turn, first / last", shown, f"{bare.first:.2f} / {bare.last:.2f}")
        )
        over = turn.mean - bare.mean
        figures.append(Figure("of it the flow's own, mean", f"{over:.2f}", "", f"≤ {OVERHEAD_MS:g}", over <= OVERHEAD_MS))
        figures.append(ratio_at_most("its growth, first to last", turn.last / turn.first, GROWTH, bare.last / bare.first))
    return figures


def _flow(shape: Callable[[int, int], list[int]], agents: Sequence[Agent], count: int) -> Flow:
    tasks = [
        Task(f"task{number}", agents=[agents[number % AGENTS]], depends_on=[f"task{need}" for need in shape(number, count)])
        for number in range(count)
    ]
    return Flow("root", tasks)


async def _turns(root: Agent, agents: Agents, path: Path) -> Turn:
    runner = Runner(root, store=SqlSessionStore(f"sqlite:///{path}"), config=CONFIG)
    try:
        context = MessageContext(direct_agent_id=root.card.name)
        result = await (await runner.start("go", user="bench", session="s", context=context)).result()
        assert result.end is not None
        assert result.end.reason == "completed", result.error
        return agents.measured()
    finally:
        await runner.close()
