"""Printing: results go to standard output, everything else to standard error.

Text from users, agents and files is never read as markup, and control characters are removed from it.
"""

import json
import os
import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from turnwise.facts.errors import TurnwiseError

# Sequences that begin with ESC (or its one-byte forms): CSI; strings such as OSC and DCS up to their end; all others.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[PX^_\]]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
)
_UNFINISHED = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*\Z|(?:\x1b[PX^_\]]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*\x1b?\Z|\x1b[ -/]*\Z"
)
_BUFFERED_CHARACTERS = 4_096
_PASSES = 5

_CONTROLS = (*range(0x00, 0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))  # all but tab and line break
_BREAKS = (0x2028, 0x2029)
_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_INVISIBLE = (0xFEFF, *range(0xE0000, 0xE0080))
_SURROGATES = range(0xD800, 0xE000)

_REPLACED: dict[int, str | None] = {
    **dict.fromkeys((*_CONTROLS, *_DIRECTIONS, *_INVISIBLE)),
    **dict.fromkeys(_BREAKS, "\n"),
    **dict.fromkeys(_SURROGATES, "\N{REPLACEMENT CHARACTER}"),
}
_ESCAPED_IN_JSON = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_BREAKS, *_DIRECTIONS, *_SURROGATES)}


def clean(text: str) -> str:
    """Removes terminal control sequences and other control characters. Keeps tabs and line breaks."""
    return _without_sequences(text).translate(_REPLACED)


def _without_sequences(text: str) -> str:
    """Removes the terminal's control sequences from a text."""
    for _ in range(_PASSES):  # removing a sequence may join its neighbours into another one
        shorter = _SEQUENCE.sub("", text)
        if shorter == text:
            break
        text = shorter
    return text


def one_line(text: str, width: int | None = None) -> str:
    """Cleans the text, folds white space so that it fits one line, and cuts it to `width` characters if given."""
    line = " ".join(clean(text).split())
    return line if width is None or len(line) <= width else line[: max(width - 1, 0)].rstrip() + "…"


def replace_undecodable(text: str) -> str:
    """Replaces undecodable bytes in text from the command line or standard input, so that it can be stored."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def safe_json(encoded: str) -> str:
    """Escapes control and reordering characters in JSON text. The value stays the same."""
    return encoded.translate(_ESCAPED_IN_JSON)


class Cleaner:
    """Cleans streamed text. A control sequence split across pieces is buffered until it is complete."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Adds a piece. Returns the text that can be shown now."""
        text = _without_sequences(self._held + piece)
        unfinished = _UNFINISHED.search(text)
        self._held = ""
        if unfinished and len(text) - unfinished.start() <= _BUFFERED_CHARACTERS:
            text, self._held = text[: unfinished.start()], text[unfinished.start() :]
        return text.translate(_REPLACED)

    def rest(self) -> str:
        """Returns the buffered text at the end of the stream."""
        text, self._held = self._held, ""
        return text.translate(_REPLACED)


PIPE_WIDTH = 120
ERROR_CHARACTERS = 1_000


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit the process with code 1


def out() -> Console:
    """The console for results."""
    return _console(sys.stdout)


def err() -> Console:
    """The console for errors, progress and hints."""
    return _console(sys.stderr)


def _console(file: TextIO) -> Console:
    """Makes a console for the file, without colours if it is no terminal or NO_COLOR is set."""
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
    """The maximum width of lines: that of the terminal or of COLUMNS. None = lines are not wrapped, as in a pipe.

    Args:
        console: None = the console for results.
    """
    console = console or out()
    said = os.environ.get("COLUMNS", "")
    return (console.width or None) if console.is_terminal or said.isdecimal() else None


def print_line(text: str | Text = "", style: str = "") -> None:
    """Prints a line, or several, to standard output. Long lines are not wrapped."""
    out().print(clean(text) if isinstance(text, str) else text, style=style, soft_wrap=True)


def print_lines(lines: Iterable[Text]) -> None:
    """Prints lines to standard output."""
    for line in lines:
        print_line(line)


def print_note(text: str, style: str = "dim", *, console: Console | None = None) -> None:
    """Prints a line that is no error to standard error, or to that console."""
    (console or err()).print(clean(text), style=style, soft_wrap=True)


def print_json(value: Any) -> None:
    """Prints a value as one line of JSON to standard output."""
    sys.stdout.write(safe_json(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) + "\n")
    sys.stdout.flush()


def show_error(error: TurnwiseError) -> None:
    """Prints an error as `error[code]: problem`, with the fix on a second line."""
    print_error(error.code, error.problem, error.fix)


def print_error(code: str, problem: str, fix: str = "", *, before: str = "", console: Console | None = None) -> None:
    """Prints an error as one line, and its fix as a second one.

    Args:
        before: the prefix that names the error's subject.
        console: None = standard error.
    """
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
    """Whether standard input and standard output are both terminals."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def write(text: str) -> None:
    """Writes to standard output and flushes it. The caller has cleaned the text."""
    sys.stdout.write(text)
    sys.stdout.flush()


def prompt(text: str) -> str:
    """The text as a prompt for `input`: bold on a colour terminal, with markers that let line editing compute its width."""
    if out().color_system is None:
        return text
    return f"\001\033[1m\002{text}\001\033[0m\002"
