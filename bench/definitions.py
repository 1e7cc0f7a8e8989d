"""Agents in the database that change: messages with and without changes; and of very many agents how soon a changed phrase is
served, its CPU, and the memory while new heads are fitted.

Each runs in a process of its own. Agents and vectors are those of `scale`.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path

from bench.measure import Figure, exactly
from bench.scale import EXAMPLES, MEMORY_GB, SERVED_SECONDS, at_most, made_up, peak_gigabytes

from turnwise import agent
from turnwise.assemble import App, load_app
from turnwise.cli.serve import tune_garbage_collector
from turnwise.matching.disk_cache import VARIABLE
from turnwise.ports.definitions import Author, Definition, MadeOfTemplates, ReplyTemplate

CPU_SECONDS = 1.0
P99_RATIO, MESSAGES = 1.5, 150
_AT_ONCE = 500
_CONFIGURATION = """
app: bench
root: desk
agents: ['bench.definitions:desk']
store: 'sqlite:///definitions.db'
policy: {stages: [{selector: semantic, options: {threshold: 0.5}}]}
encoder: {import: 'bench.scale:Directions'}
"""
_MADE = MadeOfTemplates(kind="reply", templates=(ReplyTemplate(text=("Done.",)),))


@agent(name="desk")
def desk(message: str) -> str:
    """Answers when no other agent does."""
    return f"How can I help with {message!r}?"


def figures(folder: Path, agents: int) -> list[Figure]:
    """The figures of very many agents, with their bounds."""
    found = _in_a_process(folder, "many", agents)
    size = f"{agents:,} agents × {EXAMPLES} in the database"
    return [
        at_most(f"a changed phrase is served after the put, s, {size}", found["served"], SERVED_SECONDS),
        at_most("the same, CPU of the check, the put and the swap, before heads", found["cpu"], CPU_SECONDS),
        Figure("the check of a put before its commit, s", f"{found['checked']:.2f}"),
        Figure("memory at its peak until heads are fitted, GB", f"{found['first']:.3f}"),
        at_most("memory at its peak, also while new agents get heads, GB", found["swapped"], MEMORY_GB),
    ]


def messages(folder: Path, agents: int, rounds: int) -> list[Figure]:
    """The figures of messages that are answered while an agent changes each second."""
    found = _in_a_process(folder, "messages", agents, rounds)
    ratio, name = found["busy"] / found["quiet"], f"p99 of a message, {agents:,} agents in the database, a change each second"
    return [
        Figure(f"{name}, ms", f"{found['busy']:.1f}", f"{found['quiet']:.1f}", f"≤ {P99_RATIO:g}×", ratio <= P99_RATIO),
        Figure("median of the same, ms", f"{found['busy_median']:.1f}", f"{found['quiet_median']:.1f}"),
        exactly(f"messages that failed, of {found['messages']:,.0f}", int(found["failed"]), 0),
    ]


def _in_a_process(folder: Path, work: str, *numbers: int) -> dict[str, float]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "turnwise.yaml").write_text(_CONFIGURATION)
    command = [sys.executable, "-m", "bench.definitions", str(folder), work, *map(str, numbers)]
    environment = {**os.environ, VARIABLE: str(folder / "cache")}
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout
    found: dict[str, float] = json.loads(output)
    return found


@asynccontextmanager
async def _following(app: App) -> AsyncIterator[None]:
    await app.serve_definitions()
    task = asyncio.create_task(app.follow_definitions())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await app.runner.close()


def _author() -> Author:
    return Author("bench", datetime.now(UTC))


async def _put_all(app: App, definitions: Sequence[Definition]) -> None:
    assert app.editor is not None
    for start in range(0, len(definitions), _AT_ONCE):
        await app.editor.store.put("bench", definitions[start : start + _AT_ONCE], {}, _author())


async def _put_change(app: App, number: int) -> Definition:
    """Changes a phrase of an agent, and returns what was stored."""
    editor = app.editor
    assert editor is not None
    before = await editor.version("agent", f"agent {number}")
    assert isinstance(before, Definition)
    new = before.replace(examples=(*(before.examples or ())[:-1], f"please do the change {number}"))
    (stored,) = await editor.put([new], {("agent", new.name): before.version}, _author())
    assert isinstance(stored, Definition)
    return stored


async def _changed(app: App, number: int) -> tuple[float, float]:
    """Changes a phrase of an agent. Returns the seconds until the put is done, and from then on until all decide by it."""
    began = time.perf_counter()
    stored = await _put_change(app, number)
    put = time.perf_counter()
    while app.runner.sets.current.revision < stored.revision:  # noqa: ASYNC110 (this is what is timed)
        await asyncio.sleep(0.005)
    served = time.perf_counter()
    selection = await app.runner.select(f"please do the change {number}")
    if selection.agent != stored.name:
        raise RuntimeError(f"The change goes to {selection.agent}.")
    return put - began, served - put


async def _fitted(app: App) -> None:
    meaning = app.runner.sets.current.cascade.meaning
    assert meaning is not None
    if not await meaning.fitted():
        raise RuntimeError("The heads were not fitted.")


@asynccontextmanager
async def _loaded(folder: Path, agents: int) -> AsyncIterator[tuple[App, list[str]]]:
    """Yields the app with its agents and heads, and texts for them."""
    tree, texts = made_up(agents, EXAMPLES, min(agents, 1_000))
    app = load_app(folder)
    await _put_all(app, [Definition(name=card.name, examples=card.examples, made_by=_MADE) for card in tree if card.parent])
    del tree
    async with _following(app):
        await _fitted(app)
        tune_garbage_collector()  # as the server does
        yield app, [text for text, _ in texts]


async def _many(folder: Path, agents: int) -> dict[str, float]:
    async with _loaded(folder, agents) as (app, _):
        first = peak_gigabytes()
        checked, served = await _changed(app, 1)
        await _fitted(app)
        swapped = peak_gigabytes()
        meaning = app.runner.sets.current.cascade.meaning
        assert meaning is not None
        meaning.close()  # no more fits: their CPU is not counted
        await asyncio.sleep(2.0)
        cpu = time.process_time()
        await _changed(app, 2)
        await asyncio.sleep(2.0)
        cpu = time.process_time() - cpu
    return {"checked": checked, "served": served, "cpu": cpu, "first": first, "swapped": swapped}


async def _answered(app: App, texts: Sequence[str], round_: int) -> tuple[list[float], int]:
    """Sends messages one after the other. Returns the milliseconds of each, and how many failed."""
    times, failed = [], 0
    for number in range(MESSAGES):
        text = f"{texts[(round_ * MESSAGES + number) % len(texts)]} {round_} {number}"
        began = time.perf_counter()
        result = await (await app.runner.start(text, user="ann", session=f"s{round_}-{number % 10}")).result()
        times.append(1_000 * (time.perf_counter() - began))
        failed += result.end is None or result.end.reason != "completed"
        await asyncio.sleep(0.005)
    return times, failed


async def _change_each_second(app: App, numbers: Iterator[int]) -> None:
    while True:
        await _put_change(app, next(numbers))
        await asyncio.sleep(1.0)


async def _messages(folder: Path, agents: int, rounds: int) -> dict[str, float]:
    quiet, busy, failures = list[float](), list[float](), 0
    numbers = cycle(range(agents))
    async with _loaded(folder, agents) as (app, texts):
        await _answered(app, texts, 0)
        for number in range(1, rounds + 1):
            times, failed = await _answered(app, texts, 2 * number)
            quiet, failures = quiet + times, failures + failed
            task = asyncio.create_task(_change_each_second(app, numbers))
            times, failed = await _answered(app, texts, 2 * number + 1)
            busy, failures = busy + times, failures + failed
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task  # raises what a change has raised
            await asyncio.sleep(1.5)
            await _fitted(app)
    p99 = {"quiet": sorted(quiet)[len(quiet) * 99 // 100], "busy": sorted(busy)[len(busy) * 99 // 100]}
    medians = {"quiet_median": statistics.median(quiet), "busy_median": statistics.median(busy)}
    return {**p99, **medians, "messages": len(quiet) + len(busy), "failed": failures}


if __name__ == "__main__":
    _, _folder, _work, *_numbers = sys.argv
    _measure = _many if _work == "many" else _messages
    print(json.dumps(asyncio.run(_measure(Path(_folder), *map(int, _numbers)))))
