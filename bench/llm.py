"""A turn of an agent with a model that answers at once, by the number of earlier events, beside those of other frameworks.

What is measured is what lies around the model: reading the conversation, compiling it, recording the answer. All are given
the same budget of tokens if they know one; the others send all there is.
"""

from itertools import cycle
from pathlib import Path

from bench import scene
from bench.llm_peers import Peer, installed
from bench.measure import Figure, Work, each, in_turns, progress, ratio_at_most, wall_and_cpu
from bench.sides import Plan

from turnwise import LlmAgent, Runner, SqlSessionStore
from turnwise.ports.model import ModelRequest
from turnwise.testing.models import FunctionModel
from turnwise.transcript.view import Budget

SIZES = (10, 1_000, 10_000)
GROWTH = 1.3
BUDGET = Budget(tokens=200, events=200)
"""Full with ten events, so that all sizes send their model the same."""
ANSWER = "Your order 12345 left our house on Friday and should be with you tomorrow."


def _answer(_: ModelRequest) -> str:
    return ANSWER


class Ours:
    """Turns of an LLM agent of this project on sessions of several lengths."""

    def __init__(self, folder: Path) -> None:
        agent = LlmAgent("orders", model=FunctionModel(_answer), instructions="You know all orders.", history=BUDGET)
        self._runner = Runner(agent, app=scene.APP, store=SqlSessionStore(f"sqlite:///{folder / 'llm.db'}"))

    async def seed(self, sessions: list[str], size: int) -> None:
        store, key = self._runner.store, self._runner.key
        await self.turn("model")
        turn = await store.events(key(scene.USER, "model"))
        for session in sessions:
            await scene.seed(store, key(scene.USER, session), turn, size)

    async def turn(self, session: str) -> None:
        invocation = await self._runner.start(scene.MESSAGE, user=scene.USER, session=session)
        assert (await invocation.result()).text == ANSWER

    async def close(self) -> None:
        await self._runner.close()


async def llm(plan: Plan, folder: Path) -> list[Figure]:
    """CPU and wall of a turn by the number of earlier events, ours and theirs."""
    sides: dict[str, Ours | Peer] = {"turnwise": Ours(folder), **installed(folder, ANSWER)}
    works: dict[str, Work] = {}
    sizes = [size for size in SIZES if size <= plan.sizes[-1]]
    with progress("Seeding conversations", len(sides) * len(sizes)) as step:
        for name, side in sides.items():
            for size in sizes:
                sessions = plan.sessions(size)
                await side.seed(sessions, size)
                works[f"{name} {size}"] = _batch(side, sessions, plan.batch if name == "turnwise" or size <= 1_000 else 2)
                step(f"{name} {size:,}")
    try:
        with progress("Turns with a model", len(works) * (plan.rounds + 1)) as step:
            costs = await in_turns(works, plan.rounds, step)
    finally:
        for side in sides.values():
            await side.close()
    figures = []
    for name in sides:
        mine = [costs[f"{name} {size}"] for size in sizes]
        for size, cost in zip(sizes, mine, strict=True):
            beside = f"{cost.cpu / costs[f'turnwise {size}'].cpu:.1f}× ours" if name != "turnwise" else ""
            figures.append(Figure(f"{name}: turn after {size:,} events, wall / CPU ms", wall_and_cpu(cost), beside))
        growth = mine[-1].cpu / mine[0].cpu
        if name == "turnwise":
            figures.append(ratio_at_most("turnwise: its CPU growth, first to last", growth, GROWTH))
        else:
            figures.append(Figure(f"{name}: its CPU growth, first to last", f"{growth:.1f}×"))
    return figures


def _batch(side: Ours | Peer, sessions: list[str], turns: int) -> Work:
    names = cycle(sessions)

    async def work() -> int:
        return await each(turns, lambda: side.turn(next(names)))

    return work
