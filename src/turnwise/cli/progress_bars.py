"""Progress bars of long commands, on standard error."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnwise.runner import Runner

Step = Callable[[], None]
WorkCallback = Callable[[str, int, int], None]
"""Callback with the description of the work, the number of finished steps, and their total."""


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Step]:
    """Shows a bar for `total` steps; call the yielded function after each step.

    Only on a terminal, so that logs and pipes stay clean. The bar disappears at the end.
    """
    with _bar() as bar:
        task = bar.add_task(what, total=total) if bar else None
        yield lambda: bar.advance(task) if bar else None


@contextmanager
def work_bar(what: str) -> Iterator[WorkCallback]:
    """Shows a bar for work that reports its own description and progress, from any thread."""
    with _bar() as bar:
        task = bar.add_task(what, total=None) if bar else None

        def tell(now: str, done: int, total: int) -> None:
            if bar:
                bar.update(task, description=now, completed=done, total=total or None)

        yield tell


@contextmanager
def _bar() -> Iterator[Any]:
    """Shows a progress bar for the block; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress

    from turnwise.cli import terminal

    with progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        console=terminal.err(),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as bar:
        yield bar


SHOWN_AFTER_SECONDS = 1.0
_REFRESH_SECONDS = 0.1


class _LatestReport:
    """The latest report of the work, from any thread."""

    def __init__(self) -> None:
        self.what, self.done, self.total = "preparing", 0, 0

    def __call__(self, what: str, done: int, total: int) -> None:
        self.what, self.done, self.total = what, done, total


async def prepare(runner: "Runner") -> None:
    """Prepares what the policy needs. After a second, shows a bar if standard error is a terminal.

    A failure is printed and not raised: the policy decides with what it has, and the next message tries again.
    """
    from turnwise.cli import terminal
    from turnwise.facts.errors import TurnwiseError

    work = _LatestReport()
    task = asyncio.create_task(runner.ready(work))
    try:
        await asyncio.wait({task}, timeout=SHOWN_AFTER_SECONDS)
        if not task.done() and sys.stderr.isatty():
            await _show_progress(task, work)
        await task
    except TurnwiseError as problem:
        terminal.print_error(problem.code, problem.problem, problem.fix)
    finally:
        task.cancel()


async def _show_progress(task: "asyncio.Task[None]", work: _LatestReport) -> None:
    """Shows the latest report of the task as a progress bar until the task is done."""
    from rich import progress

    from turnwise.cli import terminal

    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn())
    with progress.Progress(
        *columns, console=terminal.err(), transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bar:
        row = bar.add_task(work.what, total=None)
        while not task.done():
            bar.update(row, description=work.what, completed=work.done, total=work.total or None)
            await asyncio.wait({task}, timeout=_REFRESH_SECONDS)


class Progress:
    """Counts answered messages. Shows a bar only if standard error is a terminal and standard output is not.

    Args:
        total: the expected number; None = unknown.
    """

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._bar: Any = None
        self._task: Any = None
        self._failed = 0

    def __enter__(self) -> "Progress":
        if sys.stderr.isatty() and not sys.stdout.isatty():
            from rich import progress

            from turnwise.cli import terminal

            known = [progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeRemainingColumn()]
            columns = known if self._total else [progress.SpinnerColumn(), progress.MofNCompleteColumn()]
            self._bar = progress.Progress(
                *columns,
                progress.TextColumn("{task.fields[failed]}"),
                console=terminal.err(),
                transient=True,
                redirect_stdout=False,  # the results go there
                redirect_stderr=False,
            )
            self._task = self._bar.add_task("", total=self._total, failed="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, *, failed: bool = False) -> None:
        """Counts one more message."""
        self._failed += failed
        if self._bar is not None:
            self._bar.update(self._task, advance=1, failed=f"{self._failed} failed" if self._failed else "")

    @property
    def console(self) -> Any:
        """The console to print on while the bar is shown, so that the bar stays below. None if there is no bar."""
        return self._bar.console if self._bar is not None else None
