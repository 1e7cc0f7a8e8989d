"""Compares the cost of a turn with that of another checkout of this project, in alternating processes of one run."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.measure import Figure, Step, progress, ratio_at_most

CPU_RATIO = 1.15
ROUNDS = 9

# One process: runs the checkout whose src comes first on the path, and prints the CPU ms of a turn.
_SIDE = """
import asyncio, json, sys, time
sys.path.insert(0, sys.argv[1])
import turnwise
from turnwise import Runner, SqlSessionStore, agent
assert turnwise.__file__.startswith(sys.argv[1]), turnwise.__file__

@agent
async def echo(message: str) -> str:
    return "echo " + message

async def turns(runner, count):
    for number in range(count):
        await (await runner.start(f"message {number}", user="ada", session="s")).result()

async def main():
    runner = Runner(echo, store=SqlSessionStore(sys.argv[2]))
    work = asyncio.create_task(runner.work()) if hasattr(runner, "work") else None
    await turns(runner, 100)
    cpu = time.process_time()
    await turns(runner, 500)
    print(json.dumps(1000 * (time.process_time() - cpu) / 500))
    if work:
        work.cancel()
    await runner.close()

asyncio.run(main())
"""


def against(checkout: Path, folder: Path) -> list[Figure]:
    """CPU of a turn in this checkout and in the other, on SQLite and on PostgreSQL. Here also with a worker's loop running, if
    there is one.
    """
    from turnwise.testing.postgres import new_postgres_database

    places: dict[str, Callable[[str], str]] = {
        "SQLite": lambda name: f"sqlite:///{folder}/{name}.db",
        "PostgreSQL": lambda _: new_postgres_database(),
    }
    figures = []
    with progress("Beside the other checkout", 2 * 2 * (ROUNDS + 1)) as step:
        for name, place in places.items():
            urls = [place(f"{name}-{number}") for number in range(2 * (ROUNDS + 1))]
            ours, theirs = _both(checkout, urls, step)
            label = f"CPU ms of a turn on {name}, median of {ROUNDS} (floor: the other checkout)"
            figures.append(Figure(label, f"{ours:.2f}", f"{theirs:.2f}"))
            figures.append(ratio_at_most("its ratio", ours / theirs, CPU_RATIO))
    return figures


def _both(checkout: Path, urls: list[str], step: Step) -> tuple[float, float]:
    here = Path(__file__).resolve().parent.parent
    costs: dict[Path, list[float]] = {here: [], checkout: []}
    for number in range(ROUNDS + 1):
        for side in (here, checkout) if number % 2 else (checkout, here):
            cost = _cost(side / "src", urls.pop())
            if number:
                costs[side].append(cost)
            step(side.name)
    return statistics.median(costs[here]), statistics.median(costs[checkout])


def _cost(source: Path, url: str) -> float:
    said = subprocess.run([sys.executable, "-c", _SIDE, str(source), url], check=True, capture_output=True, text=True, cwd="/")
    return float(json.loads(said.stdout))
