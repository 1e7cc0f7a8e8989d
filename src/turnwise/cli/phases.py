"""What a long command is busy with, on standard error, when somebody looks at it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Step = Callable[[], None]
Work = Callable[[str, int, int], None]
"""Told what is being done, how many steps of it are done, and of how many."""


@contextmanager
def counted(what: str, total: int) -> Iterator[Step]:
    """A bar for `total` steps, gone at the end; whoever does one tells the step.

    On a terminal only; elsewhere nothing, so that logs and pipes stay clean.
    """
    with _bar() as bar:
        task = bar.add_task(what, total=total) if bar else None
        yield lambda: bar.advance(task) if bar else None


@contextmanager
def worked(what: str) -> Iterator[Work]:
    """The same for work that says itself what it does and how far it is; in whichever thread."""
    with _bar() as bar:
        task = bar.add_task(what, total=None) if bar else None

        def tell(now: str, done: int, total: int) -> None:
            if bar:
                bar.update(task, description=now, completed=done, total=total or None)

        yield tell


@contextmanager
def _bar() -> Iterator[Any]:
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
