"""A turn of an LLM agent whose model answers at once, by the number of earlier events, compared with other frameworks.

Measures the work around the model: reading the conversation, compiling it, recording the answer. Ours runs with three budgets:
a small one that ten events fill, the default, and the whole conversation. Warm is a later turn in the same process; cold is a
process's first turn of a session. The other frameworks keep nothing, so they are always cold. They send the whole conversation.

The garbage collector is set as `turnwise serve` sets it, for all of them: they run in one process.
"""

import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from bench import scene
from bench.llm_peers import Peer, installed
from bench.measure import Cost, Figure, Work, each, in_turns, progress, ratio_at_most, wall_and_cpu
from bench.sides import Plan

from turnwise import Limits, LlmAgent, RunConfig, Runner, SqlSessionStore
from turnwise.agents.history import transcripts
from turnwise.agents.llm.agent import HISTORY
from turnwise.cli.serve import tune_garbage_collector
from turnwise.ports.model import ModelRequest
from turnwise.testing.models import FunctionModel
from turnwise.transcript.view import Budget

SIZES = (10, 1_000, 5_000)
LONGEST = 20_000
"""The longest conversation, for the default budget alone."""
GROWTH, DEFAULT_GROWTH = 1.3, 1.5
"""Upper bounds of a turn's CPU growth from the shortest to the longest conversation, for the small and the default budget."""
WARM = {1_000: 0.6, 5_000: 0.3}
COLD = {1_000: 1.0, 5_000: 1.0}
"""Upper bounds of a turn's CPU as multiples of `MEASURE`, for each budget, by the number of earlier events."""
BESIDE = 1.5
"""The same bound for other numbers."""
MEASURE = "openai-agents"
SMALL, DEFAULT, WHOLE = "turnwise", "turnwise, default budget", "turnwise, whole conversation"
ANSWER = "Your order 12345 left our house on Friday and should be with you tomorrow."


class _Setting(NamedTuple):
    budget: Budget
    history_events: int = Limits().history_events


SETTINGS = {
    # Ten events fill it, so all sizes send the same to their model.
    SMALL: _Setting(Budget(tokens=200, events=200)),
    DEFAULT: _Setting(HISTORY),
    WHOLE: _Setting(Budget(tokens=10_000_000, events=1_000_000), 1_000_000),
}


def _answer(_: ModelRequest) -> str:
    return ANSWER


class Ours:
    """Turns of an LLM agent of this project on sessions of several lengths."""

    def __init__(self, folder: Path, name: str) -> None:
        budget, events = SETTINGS[name]
        agent = LlmAgent("orders", model=FunctionModel(_answer), instructions="You know all orders.", history=budget)
        store = SqlSessionStore(f"sqlite:///{folder / name.replace(' ', '_')}.db")
        config = RunConfig(limits=Limits(history_events=events))
        self._runner = Runner(agent, app=scene.APP, store=store, config=config)

    async def seed(self, sessions: list[str], size: int) -> None:
        store, key = self._runner.store, self._runner.key
        await self.turn("model")
        turn = await store.events(key(scene.USER, "model"))
        for session in sessions:
            await scene.seed(store, key(scene.USER, session), turn, size)

    async def turn(self, session: str) -> None:
        invocation = await self._runner.start(scene.MESSAGE, user=scene.USER, session=session)
        assert (await invocation.result()).text == ANSWER

    async def cold_turn(self, session: str) -> None:
        """A turn as in a process that has read nothing of the session."""
        transcripts.clear()
        await self.turn(session)

    async def close(self) -> None:
        await self._runner.close()


async def llm(plan: Plan, folder: Path) -> list[Figure]:
    """CPU and wall time of a turn by the number of earlier events, for ours and the other frameworks."""
    ours = {name: Ours(folder, name) for name in SETTINGS}
    sides: dict[str, Ours | Peer] = {**ours, **installed(folder, ANSWER)}
    if MEASURE not in sides:
        print(f"{MEASURE} is not installed here: nothing is measured beside it.", file=sys.stderr)
    warm: dict[str, Work] = {}
    cold: dict[str, Work] = {}
    sizes = [size for size in SIZES if size <= plan.sizes[-1]]
    with progress("Seeding conversations", len(sides) * len(sizes)) as step:
        for name, side in sides.items():
            for size in [*sizes, *([LONGEST] if name == DEFAULT else [])]:
                sessions = plan.sessions(size)
                await side.seed(sessions, size)
                turns = plan.batch if name == SMALL or size <= 1_000 else 2
                warm[f"{name} {size}"] = _batch(side.turn, sessions, turns)
                if isinstance(side, Ours) and sizes[0] < size < LONGEST:
                    cold[f"{name} {size} {_COLD}"] = _batch(side.cold_turn, sessions, turns)
                elif name == MEASURE:
                    cold[f"{name} {size} {_COLD}"] = warm[f"{name} {size}"]
                step(f"{name} {size:,}")
    tune_garbage_collector()
    try:
        # Cold turns drop what the process has kept, so they come after all others, beside the measure once more.
        costs: dict[str, Cost] = {}
        for works in (warm, cold):
            with progress("Turns with a model", len(works) * (plan.rounds + 1)) as step:
                costs |= await in_turns(works, plan.rounds, step)
    finally:
        for side in sides.values():
            await side.close()
    return [figure for name in sides for figure in _figures(name, sizes, costs)]


_COLD = "cold"


def _figures(name: str, sizes: list[int], costs: Mapping[str, Cost]) -> Iterator[Figure]:
    """The cost of one side at each length, with its bounds."""
    for size in sizes:
        yield from _beside(name, size, "", costs, WARM)
        if name != MEASURE:
            yield from _beside(name, size, f" {_COLD}", costs, COLD)
    longest = LONGEST if name == DEFAULT else sizes[-1]
    growth = costs[f"{name} {longest}"].cpu / costs[f"{name} {sizes[0]}"].cpu
    label = f"{name}: its CPU growth, {sizes[0]:,} to {longest:,} events"
    bound = {SMALL: GROWTH, DEFAULT: DEFAULT_GROWTH}.get(name)
    yield Figure(label, f"{growth:.1f}×") if bound is None else ratio_at_most(label, growth, bound)


def _beside(name: str, size: int, kind: str, costs: Mapping[str, Cost], bounds: Mapping[int, float]) -> Iterator[Figure]:
    """The cost of one side's turns at one length, warm or cold, and its ratio to the measure."""
    cost = costs.get(f"{name} {size}{kind}")
    if cost is None:
        return
    yield Figure(f"{name}:{kind} turn after {size:,} events, wall / CPU ms", wall_and_cpu(cost))
    if name in SETTINGS and (measure := costs.get(f"{MEASURE} {size}{kind}")) is not None:
        label = f"{name}:{kind} CPU beside {MEASURE} after {size:,} events"
        yield ratio_at_most(label, cost.cpu / measure.cpu, bounds.get(size, BESIDE))


def _batch(turn: Callable[[str], Awaitable[None]], sessions: list[str], turns: int) -> Work:
    names = cycle(sessions)

    async def work() -> int:
        return await each(turns, lambda: turn(next(names)))

    return work
