"""What commands print: results to standard output, everything else to standard error.

Nothing that users, agents or files wrote is read as markup: rich's markup is off, and text is cleaned first.
"""

import json
import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from turnwise.cli.clean import clean, one_line, safe_json
from turnwise.facts.errors import TurnwiseError

PIPE_WIDTH = 120
ERROR_CHARACTERS = 1_000


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would leave the process with code 1


def out() -> Console:
    """The console of results."""
    return _console(sys.stdout)


def err() -> Console:
    """The console of errors, progress and hints."""
    return _console(sys.stderr)


def _console(file: TextIO) -> Console:
    plain = not file.isatty() or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return _Console(
        file=file,
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=False,
        color_system=None if plain else "auto",
        force_terminal=None if file.isatty() else False,
        no_color=plain or None,
        width=None if file.isatty() or os.environ.get("COLUMNS") else PIPE_WIDTH,
    )


def width(console: Console | None = None) -> int | None:
    """How wide lines may be: as wide as the terminal, or as COLUMNS says. None = lines stay whole, as in a pipe. console: by
    default that of results.
    """
    console = console or out()
    said = os.environ.get("COLUMNS", "")
    return (console.width or None) if console.is_terminal or said.isdecimal() else None


def say(text: str | Text = "", style: str = "") -> None:
    """A line, or several, to standard output; long lines are left to the terminal to fold."""
    out().print(clean(text) if isinstance(text, str) else text, style=style, soft_wrap=True)


def say_all(lines: Iterable[Text]) -> None:
    """Lines to standard output."""
    for line in lines:
        say(line)


def note(text: str, style: str = "dim", *, console: Console | None = None) -> None:
    """A line to standard error, or to that console, that is no error."""
    (console or err()).print(clean(text), style=style, soft_wrap=True)


def print_json(value: Any) -> None:
    """One line of JSON to standard output, and nothing else."""
    sys.stdout.write(safe_json(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) + "\n")
    sys.stdout.flush()


def show_error(error: TurnwiseError) -> None:
    """`error[code]: problem`, and the fix in a second line."""
    complain(error.code, error.problem, error.fix)


def complain(code: str, problem: str, fix: str = "", *, before: str = "", console: Console | None = None) -> None:
    """An error in one line, and its fix in a second one. `before` says what it is about, `console` where to print."""
    console = console or err()
    line = Text()
    if before:
        line.append(before + ": ")
    line.append(f"error[{code}]", style="bold red")
    line.append(f": {one_line(problem, ERROR_CHARACTERS)}", style="red")
    console.print(line, soft_wrap=True)
    if fix:
        console.print(Text("  " + one_line(fix, ERROR_CHARACTERS)), soft_wrap=True)


def is_interactive() -> bool:
    """True when somebody sits at both ends."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def write(text: str) -> None:
    """A piece of a line to standard output, at once; the caller has cleaned it."""
    sys.stdout.write(text)
    sys.stdout.flush()


def prompt(text: str) -> str:
    """The text as a prompt for `input`, bold where there is colour, marked so that line editing knows its width."""
    if out().color_system is None:
        return text
    return f"\001\033[1m\002{text}\001\033[0m\002"
