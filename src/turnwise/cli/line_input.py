"""Reads lines from the terminal, a pipe or a file."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

from turnwise.facts.errors import TurnwiseError


def read_line(prompt: str, *, interactive: bool) -> str | None:
    """Returns the next line; None at the end of the input.

    Args:
        interactive: whether a person types; only then the prompt is shown.

    Raises:
        KeyboardInterrupt: on Ctrl-C.
    """
    from turnwise.cli import terminal
    from turnwise.cli.terminal import replace_undecodable

    if not interactive:
        line = sys.stdin.readline() if sys.stdin else ""
        return replace_undecodable(line.rstrip("\n")) if line else None
    try:
        import readline  # noqa: F401  importing it enables line editing and history

        prompt = terminal.prompt(prompt)
    except ImportError:  # Python may be built without it
        pass
    try:
        return replace_undecodable(input(prompt))
    except (EOFError, KeyboardInterrupt) as left:
        print()
        if isinstance(left, KeyboardInterrupt):
            raise
        return None


CHUNK_BYTES = 64 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024
CHUNKS_AHEAD = 4


class InputError(TurnwiseError):
    """A line, or the whole input, cannot be read."""

    code = "input"


class InputLines:
    """The lines of an input, with numbers that start at 1.

    Args:
        source: a file; a number = an open file descriptor; None = standard input.
    """

    def __init__(self, source: Path | int | None) -> None:
        self._source = source

    def count(self) -> int:
        """The number of lines in the file, including blank ones."""
        assert isinstance(self._source, Path)
        with self._source.open("rb") as file:
            pieces = iter(lambda: file.read(CHUNK_BYTES), b"")
            found, last = 0, b"\n"
            for piece in pieces:
                found, last = found + piece.count(b"\n"), piece[-1:]
        return found + (last != b"\n")

    async def read(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yields the lines in order, with their numbers.

        Raises:
            InputError: for a line of more than 64 MB, or a source that cannot be read.
        """
        number, line = 1, bytearray()
        async for chunk in self._chunks():
            more, *begun = chunk.split(b"\n")
            line += more
            if len(line) > MAX_LINE_BYTES:
                fix = "Is this a file of JSON lines?"
                raise InputError(f"Line {number} is longer than {MAX_LINE_BYTES // 1024 // 1024} MB.", fix=fix)
            for next_ in begun:
                yield number, bytes(line)
                number, line = number + 1, bytearray(next_)
        if line:
            yield number, bytes(line)

    async def _chunks(self) -> AsyncIterator[bytes]:
        """Yields the bytes of the source, read in a thread that is at most CHUNKS_AHEAD chunks ahead."""
        # Reads in a separate daemon thread: standard input may block forever, and the process must still be able to exit. Reads
        # from the descriptor: a daemon thread must not hold the lock of a buffered file when Python exits.
        if self._source is None and sys.stdin is None:
            raise InputError("There is no standard input.", fix="Name a file.")
        loop = asyncio.get_running_loop()
        ready: asyncio.Queue[bytes | OSError] = asyncio.Queue()
        room = threading.Semaphore(CHUNKS_AHEAD)

        def hand(piece: bytes | OSError) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(ready.put_nowait, piece)

        def pump() -> None:
            try:
                descriptor = self._descriptor()
                try:
                    while chunk := os.read(descriptor, CHUNK_BYTES):
                        room.acquire()
                        hand(chunk)
                finally:
                    if isinstance(self._source, Path):
                        os.close(descriptor)
                hand(b"")
            except OSError as error:
                hand(error)

        threading.Thread(target=pump, name="turnwise-lines", daemon=True).start()
        while True:
            piece = await ready.get()
            room.release()
            if isinstance(piece, OSError):
                raise InputError(f"The input cannot be read: {piece}.")
            if not piece:
                return
            yield piece

    def _descriptor(self) -> int:
        if isinstance(self._source, Path):
            return os.open(self._source, os.O_RDONLY)
        return sys.stdin.fileno() if self._source is None else self._source
