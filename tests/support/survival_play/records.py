"""What the processes write down beside the store: lines in files that outlive them and that all of them share."""

import json
import os
import random
import time
from pathlib import Path
from typing import Any, NamedTuple


class Sent(NamedTuple):
    """A message, as its id tells: whoever knows the id can send it again."""

    session: str
    kind: str
    sender: str
    number: int

    @property
    def id(self) -> str:
        return f"{self.session}.{self.kind}.{self.sender}-{self.number}"


def sent(id_: str) -> Sent:
    session, kind, origin = id_.split(".")
    sender, _, number = origin.rpartition("-")
    return Sent(session, kind, sender, int(number))


class Records:
    """Files of JSON lines, one for each kind of record. Every line says when, and which process wrote it."""

    def __init__(self, folder: Path, process: str) -> None:
        self._folder, self._process = folder, process
        self._files: dict[str, int] = {}

    def write(self, kind: str, *, durable: bool = False, **fields: Any) -> None:
        """Adds a line at once; `durable`: it is on the disk when this returns."""
        line = json.dumps({"time": time.time(), "process": self._process, **fields})
        if kind not in self._files:
            self._files[kind] = os.open(self._path(kind), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        # A process may die in the middle of it: what it left of a line ends where the next one begins.
        os.write(self._files[kind], f"\n{line}\n".encode())
        if durable:
            os.fsync(self._files[kind])

    def read(self, kind: str) -> list[dict[str, Any]]:
        """All whole lines of that kind, in the order they were written."""
        try:
            lines = self._path(kind).read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        return [record for line in lines if (record := _parsed(line)) is not None]

    def any_earlier(self, kind: str, dice: random.Random) -> dict[str, Any] | None:
        """Some line of the last few hundred; None when there is none."""
        try:
            with self._path(kind).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 32_768))
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return None
        found = [record for line in lines if (record := _parsed(line)) is not None]
        return dice.choice(found) if found else None

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def _path(self, kind: str) -> Path:
        return self._folder / f"{kind}.jsonl"


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
