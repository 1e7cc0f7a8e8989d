"""Making an app ready to decide, with a bar when it takes a while."""

import asyncio
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnwise.runner import Runner

SHOWN_AFTER_SECONDS = 1.0
_LOOKS_SECONDS = 0.1


class _Work:
    """The last that was told of the work, by whichever thread does it."""

    def __init__(self) -> None:
        self.what, self.done, self.total = "preparing", 0, 0

    def __call__(self, what: str, done: int, total: int) -> None:
        self.what, self.done, self.total = what, done, total


async def ready(runner: "Runner") -> None:
    """Prepares what the policy needs. After a second a bar says how far it is, if standard error is a terminal.

    What cannot be prepared is told and is no end: messages are decided by what is there, and the next one tries again.
    """
    from turnwise.cli import terminal
    from turnwise.facts.errors import TurnwiseError

    work = _Work()
    task = asyncio.create_task(runner.ready(work))
    try:
        await asyncio.wait({task}, timeout=SHOWN_AFTER_SECONDS)
        if not task.done() and sys.stderr.isatty():
            await _shown(task, work)
        await task
    except TurnwiseError as problem:
        terminal.complain(problem.code, problem.problem, problem.fix)
    finally:
        task.cancel()


async def _shown(task: "asyncio.Task[None]", work: _Work) -> None:
    from rich import progress

    from turnwise.cli import terminal

    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn())
    with progress.Progress(
        *columns, console=terminal.err(), transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bar:
        row = bar.add_task(work.what, total=None)
        while not task.done():
            bar.update(row, description=work.what, completed=work.done, total=work.total or None)
            await asyncio.wait({task}, timeout=_LOOKS_SECONDS)
