"""A progress bar on standard error, when somebody looks at it."""

import sys
from typing import Any


class Progress:
    """Counts messages. Shows nothing unless standard error is a terminal and standard output is not.

    `total` is how many there will be, None if nobody knows.
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
        """One more is done."""
        self._failed += failed
        if self._bar is not None:
            self._bar.update(self._task, advance=1, failed=f"{self._failed} failed" if self._failed else "")

    @property
    def console(self) -> Any:
        """Where to print while the bar is shown, so that it stays below; None when there is no bar."""
        return self._bar.console if self._bar is not None else None
