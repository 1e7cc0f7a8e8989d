"""What somebody types, or what a pipe holds, line by line."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

from turnwise.facts.errors import TurnwiseError


def read_line(prompt: str, *, interactive: bool) -> str | None:
    """The next line; None at the end. The prompt is shown to who sits there (`interactive`). KeyboardInterrupt is Ctrl-C."""
    from turnwise.cli import terminal
    from turnwise.cli.terminal import whole

    if not interactive:
        line = sys.stdin.readline() if sys.stdin else ""
        return whole(line.rstrip("\n")) if line else None
    try:
        import readline  # noqa: F401  editing and recall of lines, by being imported

        prompt = terminal.prompt(prompt)
    except ImportError:  # Python may be built without it
        pass
    try:
        return whole(input(prompt))
    except (EOFError, KeyboardInterrupt) as left:
        print()
        if isinstance(left, KeyboardInterrupt):
            raise
        return None


CHUNK_BYTES = 64 * 1024
LINE_BYTES = 64 * 1024 * 1024
CHUNKS_AHEAD = 4


class InputError(TurnwiseError):
    """A line, or the whole input, that cannot be read."""

    code = "input"


class InputLines:
    """Lines with their numbers, from 1. `source` None is standard input, a number a descriptor that is open."""

    def __init__(self, source: Path | int | None) -> None:
        self._source = source

    def count(self) -> int:
        """How many lines the file has, blank ones too."""
        assert isinstance(self._source, Path)
        with self._source.open("rb") as file:
            pieces = iter(lambda: file.read(CHUNK_BYTES), b"")
            found, last = 0, b"\n"
            for piece in pieces:
                found, last = found + piece.count(b"\n"), piece[-1:]
        return found + (last != b"\n")

    async def read(self) -> AsyncIterator[tuple[int, bytes]]:
        """The lines in order. InputError for a line of more than 64 MB, or a source that cannot be read."""
        number, line = 1, bytearray()
        async for chunk in self._chunks():
            more, *begun = chunk.split(b"\n")
            line += more
            if len(line) > LINE_BYTES:
                fix = "Is this a file of JSON lines?"
                raise InputError(f"Line {number} is longer than {LINE_BYTES // 1024 // 1024} MB.", fix=fix)
            for next_ in begun:
                yield number, bytes(line)
                number, line = number + 1, bytearray(next_)
        if line:
            yield number, bytes(line)

    async def _chunks(self) -> AsyncIterator[bytes]:
        # A thread of its own, for standard input may block for ever, and the process must be able to end meanwhile. It reads
        # from the descriptor itself: a daemon thread must not hold the lock of a buffered file when Python ends.
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
