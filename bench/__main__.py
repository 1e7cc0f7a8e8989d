"""`./dev bench`: every part in one run, and a table. The exit code is 1 when a bound is missed."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from bench import dialogues, turns
from bench.measure import Figure, report
from bench.sides import QUICK, Plan, Sides
from bench.slow_disk import again_slowed, is_slowed
from bench.startup import startup

DIALOGUES = 200
# On the disk of the checkout: a folder for temporary files is often in memory, where a commit costs nothing.
FOLDER = Path(__file__).resolve().parent.parent / "build" / "bench"


async def measured(plan: Plan, parts: list[str], folder: Path) -> list[Figure]:
    """The parts about turns, in one run over the same logs."""
    sides = Sides(folder, plan)
    try:
        await sides.prepare()
        return [figure for part in turns.PARTS if part.__name__ in parts for figure in await part(sides)]
    finally:
        await sides.close()


def figures(parts: list[str], plan: Plan, folder: Path) -> list[Figure]:
    found: list[Figure] = []
    if set(parts) & {part.__name__ for part in turns.PARTS}:
        found += asyncio.run(measured(plan, parts, folder))
    if "startup" in parts:
        found += startup()
    return found


def main() -> int:
    names = [*(part.__name__ for part in turns.PARTS), "startup", "dialogues"]
    parser = argparse.ArgumentParser(prog="./dev bench", description="Turns beside a hand-written sqlite3 floor, in one run.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these: {', '.join(names)}")
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder with sgd/dev.jsonl, for the part dialogues")
    parser.add_argument("--quick", action="store_true", help="shorter logs and fewer rounds: a look, not a measurement")
    parser.add_argument("--slower-fsync", type=float, metavar="MS", help="as on a disk whose fsync takes so much longer")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the databases are made (default: build/bench)")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.parts) - set(names))
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(names)}")
    if arguments.data is None and "dialogues" in arguments.parts:
        parser.error("the part dialogues needs --data DIR")
    if arguments.data is not None and not (arguments.data / "sgd" / "dev.jsonl").is_file():
        parser.error(f"there is no sgd/dev.jsonl in {arguments.data}")
    if arguments.slower_fsync and not is_slowed():
        again_slowed(arguments.slower_fsync, arguments.folder)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    plan = QUICK if arguments.quick else Plan()
    parts = arguments.parts or names
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        found = figures(parts, plan, Path(folder))
    if found:
        report("Beside a hand-written sqlite3 floor (medians; both WAL, synchronous=FULL)", found)
    if "dialogues" in parts and arguments.data is not None:
        asyncio.run(dialogues.main(arguments.data, DIALOGUES))
    return int(any(figure.kept is False for figure in found))


if __name__ == "__main__":
    sys.exit(main())
