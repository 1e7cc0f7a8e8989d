"""The two systems that are compared, each with its own database in one folder."""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from bench import scene
from bench.floor import Floor
from bench.measure import Work, progress

from turnwise.facts.events import Event


class Plan(NamedTuple):
    """How much is measured. sizes: numbers of earlier events. rounds: batches that count. batch: turns in one batch."""

    sizes: tuple[int, ...] = (10, 100, 1_000, 10_000, 100_000)
    rounds: int = 9
    batch: int = 10

    def sessions(self, size: int) -> list[str]:
        """Enough sessions of that size that none grows much during the measurement."""
        count = max(1, min(self.batch * (self.rounds + 1), 2_000 // size))
        return [f"{size}-{number}" for number in range(count)]

    def floor_batch(self, size: int) -> int:
        """Turns in a batch of the floor. It reads the whole log, so fewer turns suffice for long logs."""
        return self.batch if size <= 1_000 else 2


QUICK = Plan(sizes=(10, 1_000, 10_000), rounds=3, batch=5)


class Sides:
    """`runner` is ours, `floor` the hand-written one; `model` holds the events of one real turn of ours."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.plan = plan
        self.path, self.floor_path = folder / "turnwise.db", folder / "floor.db"
        self.runner = scene.runner(self.path)
        self.floor = Floor(self.floor_path)
        self.model: list[Event] = []

    async def prepare(self) -> None:
        """Fills both with logs of every size, made of copies of the model turn."""
        await self.answer("model")
        self.model = await self.stored("model")
        with progress("Seeding logs", len(self.plan.sizes)) as step:
            for size in self.plan.sizes:
                for session in self.plan.sessions(size):
                    await self.seed(session, size)
                step(f"{size:,} events")

    async def close(self) -> None:
        await self.runner.close()
        self.floor.close()

    async def answer(self, session: str, message: str = scene.MESSAGE) -> str:
        """Runs one turn of ours. Returns the answer's text once it is stored."""
        invocation = await self.runner.start(message, user=scene.USER, session=session)
        return (await invocation.result()).text

    def floor_turn(self, session: str) -> None:
        self.floor.turn(session, self.model[0].model_dump_json(), self.model[-1].model_dump_json())

    async def stored(self, session: str) -> list[Event]:
        return await self.runner.store.events(self.runner.key(scene.USER, session))

    async def seed(self, session: str, count: int) -> None:
        await scene.seed(self.runner.store, self.runner.key(scene.USER, session), self.model, count)
        bodies = [event.model_dump_json() for event in self.model]
        self.floor.seed(session, (bodies[number % len(bodies)] for number in range(count)))

    def turns(self, size: int) -> Work:
        """A batch of our turns on sessions of that size."""
        sessions = cycle(self.plan.sessions(size))

        async def work() -> int:
            for _ in range(self.plan.batch):
                await self.answer(next(sessions))
            return self.plan.batch

        return work

    def floor_turns(self, size: int) -> Work:
        """A batch of the floor's turns on sessions of that size."""
        sessions: Iterator[str] = cycle(self.plan.sessions(size))

        async def work() -> int:
            for _ in range(self.plan.floor_batch(size)):
                self.floor_turn(next(sessions))
            return self.plan.floor_batch(size)

        return work
