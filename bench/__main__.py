"""`./dev bench`: runs the benchmarks and prints tables. Exits with 1 if a bound is missed."""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import (
    console,
    format as store_format,
    learning,
    learning_curves,
    learning_dialogues,
    learning_scale,
    memory,
    memory_routing,
    memory_users,
    routing,
    routing_peer,
    scaling,
    survival,
    turns,
    waits,
)
from bench.abuse import SECONDS, abused
from bench.against import against
from bench.changes import changes
from bench.engines import QUICK as QUICK_ENGINES, Plan as EnginePlan, figures as engines
from bench.experiments import experiments
from bench.flows import flows
from bench.gateway import parts as gateway
from bench.held import held
from bench.llm import llm
from bench.measure import Figure, report
from bench.nasty import nasty
from bench.routing_report import shown, written
from bench.scale import scale
from bench.sides import QUICK, Plan, Sides
from bench.slow_disk import again_slowed, is_slowed
from bench.startup import startup

SURVIVAL, ROUTING, GATEWAY, NASTY, FORMAT, ABUSE = "survival", "routing", "gateway", "nasty", "format", "abuse"
MEMORY, EXPERIMENTS, CONSOLE, LEARNING, ENGINES = "memory", "experiments", "console", "learning", "engines"
HELD, CHANGES, SCALING = "held", "changes", "scaling"
LEARNING_PARTS = {
    LEARNING: learning,
    f"{LEARNING}:dialogues": learning_dialogues,
    f"{LEARNING}:curves": learning_curves,
    f"{LEARNING}:scale": learning_scale,
}
# On the disk of the checkout: the folder for temporary files is often in memory, where a commit costs nothing.
FOLDER = Path(__file__).resolve().parent.parent / "build" / "bench"


async def measured(plan: Plan, parts: list[str], folder: Path) -> list[Figure]:
    """Runs the benchmarks of turns together, over the same logs."""
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


def routes(parts: list[str], arguments: argparse.Namespace) -> bool:
    """Runs the routing benchmarks on data sets. Returns whether every floor is reached."""
    if not routing_peer.installed():
        print("semantic-router is not installed: its column stays empty.", file=sys.stderr)
    bench = routing.Bench(arguments.data, routing.QUICK if arguments.quick else 1)
    rows = asyncio.run(routing.routed(bench, parts))
    if arguments.reports is not None:
        written(arguments.reports, bench)
    return shown(rows)


def asked() -> argparse.Namespace:
    """Parses the command line. `parts`: turns, startup and scale; `scenes`: survival and routing."""
    names = [*(part.__name__ for part in turns.PARTS), "startup", "scale", "llm", "flows"]
    scenes = [SURVIVAL, *(f"{SURVIVAL}:{name}" for name in survival.PARTS)]
    scenes += [GATEWAY, CONSOLE, NASTY, HELD, CHANGES, FORMAT, ABUSE, MEMORY, EXPERIMENTS, *LEARNING_PARTS, ENGINES, ROUTING]
    scenes += [SCALING, *(f"{ROUTING}:{part.__name__}" for part in routing.PARTS)]
    parser = argparse.ArgumentParser(prog="./dev bench", description="Turns beside a hand-written sqlite3 floor, in one run.")
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"only these: {', '.join(names)}; or what only runs when it is named, for it takes minutes: {', '.join(scenes)}",
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help=f"a folder of data sets, for {ROUTING}, {MEMORY} and {LEARNING}"
    )
    parser.add_argument("--model", type=Path, metavar="FILE", help=f"a model without the traffic, for {LEARNING}:dialogues")
    parser.add_argument("--reports", type=Path, metavar="DIR", help=f"write a page with plots for each evaluation of {ROUTING}")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="only a turn's CPU, beside another checkout's")
    parser.add_argument("--quick", action="store_true", help="shorter logs and fewer rounds: a look, not a measurement")
    parser.add_argument(
        "--users", type=int, metavar="N", help=f"also search among 100 entries of each of N users, for {MEMORY}"
    )
    parser.add_argument("--engine", choices=["restate"], help=f"a server that schedules the work, for {SURVIVAL}")
    parser.add_argument("--seed", type=int, default=1, help=f"of what is random in {SURVIVAL} and {EXPERIMENTS} (default: 1)")
    parser.add_argument("--slower-fsync", type=float, metavar="MS", help="as on a disk whose fsync takes so much longer")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the databases are made (default: build/bench)")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.parts) - {*names, *scenes})
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join([*names, *scenes])}")
    if arguments.against is not None and not (arguments.against / "src" / "turnwise").is_dir():
        parser.error(f"{arguments.against} is no checkout of this project")
    if any(part.partition(":")[0] == ROUTING for part in arguments.parts):
        if arguments.data is None:
            parser.error(f"{ROUTING} needs --data DIR")
        if lacking := list(routing.missing(arguments.data)):
            parser.error(f"there is no {', '.join(lacking)} in {arguments.data}")
    for part, bench in LEARNING_PARTS.items():
        if part in arguments.parts and (arguments.data is None or bench.missing(arguments.data)):
            parser.error(f"{part} needs --data DIR with {', '.join(bench.NEEDED)}")
    if MEMORY in arguments.parts and arguments.data is not None and not memory.found_files(arguments.data):
        parser.error(f"there is no locomo/*.jsonl in {arguments.data}")
    arguments.scenes = [part for part in arguments.parts if part in scenes]
    arguments.parts = [part for part in arguments.parts if part in names] or ([] if arguments.scenes else names)
    return arguments


def only(scenes: list[str], kind: str) -> list[str]:
    """The selected scenes of that kind; empty = all."""
    return [] if kind in scenes else [scene.partition(":")[2] for scene in scenes if scene.startswith(f"{kind}:")]


def tables(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[str, list[Figure]]]:
    """Yields a table for each selected benchmark, as soon as it is measured."""
    plan = QUICK if arguments.quick else Plan()
    if turned := figures(arguments.parts, plan, folder):
        yield "Beside a hand-written sqlite3 floor (medians; both WAL, synchronous=FULL)", turned
    if "llm" in arguments.parts:
        yield "A turn with a model that answers at once", asyncio.run(llm(plan, folder))
    if "flows" in arguments.parts:
        yield "A turn of a flow beside its agent alone (means and medians within one run)", asyncio.run(flows(plan, folder))
    if "scale" in arguments.parts:
        yield "Very many agents (one process each; vectors made up, encoding not counted)", scale()
    if GATEWAY in arguments.scenes:
        served = gateway.measured(gateway.QUICK if arguments.quick else gateway.Plan(), folder)
        yield "The gateway beside a bare FastAPI route that writes two rows in two commits (medians)", served
    if CONSOLE in arguments.scenes:
        opened = console.measured(console.QUICK if arguments.quick else console.Plan(), folder / "console")
        yield "The console in a browser (medians)", opened
    if FORMAT in arguments.scenes:
        yield "The store's format: sizes, and long sessions", store_format.figures(folder, quick=arguments.quick)
    if ENGINES in arguments.scenes:
        found = list(engines(folder, QUICK_ENGINES if arguments.quick else EnginePlan()))
        yield "Dispatchers: one message at a time per worker, agents that wait 50 ms", found
        yield "Waits, one process without an engine, its clock moved", list(waits.figures(folder, quick=arguments.quick))
        real = list(waits.engine_figures(folder, quick=arguments.quick))
        yield "Waits on Restate, one process, with the real clock", real
    if SCALING in arguments.scenes:
        yield "Simulated workers, answers of 3 s, against a fake clock", list(scaling.fleets(quick=arguments.quick))
        yield "What is used up at which number of workers", list(scaling.limits(quick=arguments.quick))
    if MEMORY in arguments.scenes:
        yield from memory_tables(arguments, folder)
    yield from learning_tables(arguments, folder)
    yield from process_tables(arguments, folder)


def memory_tables(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[str, list[Figure]]]:
    recalled = memory.figures(arguments.data, folder, quick=arguments.quick)
    yield "Memory: evidence among the first 5 / 10 / 20, and searches", recalled
    if arguments.users:
        yield "Searches among the memories of many users", memory_users.searches(folder, arguments.users)
    yield "What the memory adds to a turn (medians)", memory_users.turns(folder, quick=arguments.quick)
    yield "Routing by memory (floor: without it)", memory_routing.figures(folder)


def learning_tables(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[str, list[Figure]]]:
    if LEARNING in arguments.scenes:
        rows = learning.figures(arguments.data, quick=arguments.quick)
        yield "What labels teach: points gained on other messages, median (worst to best)", rows
    if f"{LEARNING}:dialogues" in arguments.scenes:
        rows = learning_dialogues.figures(arguments.data, quick=arguments.quick, trained=arguments.model)
        yield "What labels of conversations teach: points gained on other dialogues, median (worst to best)", rows
    if f"{LEARNING}:curves" in arguments.scenes:
        rows = learning_curves.figures(arguments.data, quick=arguments.quick)
        yield "Points gained by number of labels, median", rows
    if f"{LEARNING}:scale" in arguments.scenes:
        rows = learning_scale.figures(arguments.data, folder, quick=arguments.quick)
        yield "Reports and replays of much traffic", rows


def process_tables(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[str, list[Figure]]]:
    if HELD in arguments.scenes:
        yield "Very long answers: the longest time that one holds the event loop (CPU; how it ended)", held()
    if CHANGES in arguments.scenes:
        yield "Agents that change (floor: without changes)", changes(folder, quick=arguments.quick)
    if NASTY in arguments.scenes:
        yield "The worst texts for each reader, 10,000 and 260,000 characters (CPU)", nasty(quick=arguments.quick)


def main() -> int:
    arguments = asked()
    if arguments.slower_fsync and not is_slowed():
        again_slowed(arguments.slower_fsync, arguments.folder)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    found, kept = list[Figure](), True
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if arguments.against is not None:
            found = against(arguments.against.resolve(), Path(folder))
            report("Beside another checkout", found)
            return int(any(figure.kept is False for figure in found))
        for title, table in tables(arguments, Path(folder)):
            report(title, table)
            found += table
        if ABUSE in arguments.scenes:
            kept = abused(Path(folder), 5.0 if arguments.quick else SECONDS)
        if any(scene.startswith(SURVIVAL) for scene in arguments.scenes):
            engine = arguments.engine is not None
            plan = survival.quick(arguments.seed, engine=engine)
            plan = plan if arguments.quick else survival.Scale(arguments.seed, engine=engine)
            kept = survival.survival(only(arguments.scenes, SURVIVAL), plan, Path(folder)) and kept
    if any(scene.startswith(ROUTING) for scene in arguments.scenes):
        kept = routes(only(arguments.scenes, ROUTING), arguments) and kept
    if EXPERIMENTS in arguments.scenes:
        kept = experiments(quick=arguments.quick, seed=arguments.seed) and kept
    return int(not kept or any(figure.kept is False for figure in found))


if __name__ == "__main__":
    # However the run ends, no process and no folder is left.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("Stopped.")
