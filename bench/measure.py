"""Measures CPU and wall time of small units of work in alternating rounds, and prints tables of figures with bounds."""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

Work = Callable[[], Awaitable[int]]
"""Does some units of work, such as turns, and returns how many."""

Step = Callable[[str], None]
"""Reports that a step is done, and the name of the next one."""


class Cost(NamedTuple):
    """Cost of one unit of work in milliseconds. CPU is that of the whole process, all threads."""

    wall: float
    cpu: float


class Figure(NamedTuple):
    """A row of the report. Without a bound, `bound` is empty and `kept` is None."""

    name: str
    value: str
    floor: str = ""
    bound: str = ""
    kept: bool | None = None


async def cost_of(work: Work) -> Cost:
    """The cost of one unit: the mean over one call of `work`."""
    wall, cpu = time.perf_counter(), time.process_time()
    units = await work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Cost(1_000 * wall / units, 1_000 * cpu / units)


async def in_turns(works: Mapping[str, Work], rounds: int, step: Step) -> dict[str, Cost]:
    """Each work's median cost over the rounds.

    Every round runs each work once, and every other round in reverse order, so that a temporary slowdown of the machine affects
    all of them. One warm-up round is not counted.
    """
    costs: dict[str, list[Cost]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name in list(works) if number % 2 else reversed(list(works)):
            cost = await cost_of(works[name])
            if number:
                costs[name].append(cost)
            step(name)
    return {name: median(of) for name, of in costs.items()}


def median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(c.wall for c in costs), statistics.median(c.cpu for c in costs))


@contextmanager
def progress(what: str, steps: int) -> Iterator[Step]:
    """A progress bar on a terminal; elsewhere one line, to keep logs readable."""
    console = Console(stderr=True)
    if not console.is_terminal:
        print(f"{what} …", file=sys.stderr, flush=True)
        yield lambda _: None
        return
    now = TextColumn("{task.fields[now]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), now)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=steps, now="")
        yield lambda name: bar.update(task, advance=1, now=name)


def report(title: str, figures: list[Figure]) -> None:
    """Prints the figures: as a table on a terminal, as plain text elsewhere. Without floors, their column is omitted."""
    console = Console()
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD if console.is_terminal else box.ASCII2)
    table.add_column("figure")
    has_floor = any(figure.floor for figure in figures)
    for heading in ("Turnwise", "floor", "bound") if has_floor else ("Turnwise", "bound"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for figure in figures:
        verdict = {True: "[green]kept[/]", False: "[red]MISSED[/]", None: ""}[figure.kept]
        floor = (figure.floor,) if has_floor else ()
        table.add_row(figure.name, figure.value, *floor, figure.bound, verdict)
    if console.is_terminal:
        console.print(table)
    else:
        Console(width=120).print(table)


async def each(count: int, work: Callable[[], Awaitable[object]]) -> int:
    """A `Work` of `count` units, one after the other."""
    for _ in range(count):
        await work()
    return count


def fsync_ms(folder: Path) -> float:
    """The cost of one fsync in that folder: 0.1 ms on some disks, 4 or more on others. Wall times mean little without it."""
    costs = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(50):
            file.write(b"x" * 4096)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            costs.append(time.perf_counter() - began)
    return 1_000 * statistics.median(costs)


def wall_and_cpu(cost: Cost) -> str:
    return f"{cost.wall:.1f} / {cost.cpu:.2f}"


def ratio_at_most(name: str, ratio: float, bound: float, floor: float | None = None) -> Figure:
    return Figure(name, f"{ratio:.2f}×", f"{floor:.2f}×" if floor else "", f"≤ {bound:g}×", ratio <= bound)


def ratio_at_least(name: str, ratio: float, bound: float) -> Figure:
    return Figure(name, f"{ratio:.2f}×", "", f"≥ {bound:g}×", ratio >= bound)


def exactly(name: str, count: int, wanted: int) -> Figure:
    return Figure(name, f"{count:,}", "", f"{wanted:,}", count == wanted)
