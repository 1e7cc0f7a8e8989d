"""The definitions that this machine served last, as a file: a process that starts without the database serves them (F7)."""

import hashlib
import json
import logging
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from turnwise.config.served_definitions import merged
from turnwise.ports.definitions import AnyDefinition, Definition, DefinitionSet, PolicyDefinition
from turnwise.selection.background_work import background_work

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_REVISION = re.compile(rb'"revision": (\d+)\}\n\Z')
"""How each line ends."""
_TAIL_BYTES = 64
_FREE_BYTES = 100_000

log = logging.getLogger("turnwise.config")


class KeptDefinitions:
    """A file that only this user may read and write. Its methods do not raise: an unusable file acts as a missing one.

    The file's first line holds all definitions of a revision, each further line those that changed up to a later one. So a
    change costs what it is, not what all definitions are. The file is written anew when its changes have become many.

    Args:
        folder: The cache folder.
        app: The app's name.
        store: The session store's URL or import path; it is not written.
    """

    def __init__(self, folder: Path, app: str, store: str) -> None:
        digest = hashlib.sha256(f"{app}\0{store}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._path = folder / f"definitions-{digest}.json"
        self._last: DefinitionSet | None = None
        self._rewrite_above_bytes = 0
        """Above this size the file is written anew."""

    def read(self) -> DefinitionSet | None:
        """Returns the definitions; None = there are none, or the file may be another user's."""
        try:
            with self._path.open("rb") as file:
                if not _is_own(file):
                    log.warning("The kept definitions %s are not used: others may have written them.", self._path)
                    return None
                found = _read(json.loads(file.readline()))
                for line in file:
                    found = _with_line(found, line)
            return found
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, ValidationError) as problem:
            log.warning("The kept definitions %s cannot be used (%s).", self._path, type(problem).__name__)
            return None

    def write(self, definitions: DefinitionSet) -> None:
        """Keeps these definitions. Adds to the file only what changed since the last time, if that is possible."""
        try:
            if self._last is None or not self._add(self._last, definitions):
                self._replace(definitions)
            self._last = definitions
        except OSError as problem:
            log.warning("The definitions cannot be kept in %s: %s", self._path.parent, problem.strerror)

    def _add(self, before: DefinitionSet, after: DefinitionSet) -> bool:
        """Adds a line with the changes. Returns whether the file then holds the later definitions.

        Processes of one machine share the file: another one may have written this revision already, or an earlier set. Of two
        that write at once, the second one replaces the file: its line would follow another revision than it says.
        """
        line = _change_line(before, after).encode()
        try:
            with open(self._path, "r+b", opener=_appending) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - _TAIL_BYTES, 0))
                found = _REVISION.search(file.read())
                if found is None or not _is_own(file) or size > self._rewrite_above_bytes:
                    return False
                kept = int(found[1])
                if kept == before.revision < after.revision:
                    file.write(line)
                    file.flush()
                    if file.tell() != size + len(line):
                        return False
                return kept == before.revision or kept >= after.revision
        except FileNotFoundError:
            return False

    def _replace(self, definitions: DefinitionSet) -> None:
        """Replaces the file. Raises OSError."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix="new-", suffix=".tmp", dir=self._path.parent)  # with mode 600
        try:
            with open(handle, "w", encoding="utf-8") as file, background_work():
                file.writelines(_file_parts(definitions))
                self._rewrite_above_bytes = 2 * file.tell() + _FREE_BYTES
            os.replace(name, self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _is_own(file: BinaryIO) -> bool:
    """Returns whether only this user can have written the open file."""
    status = os.fstat(file.fileno())
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & _OTHERS)


def _read(data: Any) -> DefinitionSet:
    agents = tuple(Definition.model_validate_json(each) for each in data["agents"])
    policies = tuple(PolicyDefinition.model_validate_json(each) for each in data["policies"])
    gone = tuple((kind, name) for kind, name in data.get("retired", ()))
    return DefinitionSet(int(data["revision"]), agents, policies, gone)


def _with_line(before: DefinitionSet, line: bytes) -> DefinitionSet:
    """Returns the definitions after a line of changes.

    A line that a crash cut changes nothing, nor one after another set, as when two processes write at once.
    """
    if not line.endswith(b"\n"):
        return before
    data = json.loads(line)
    return merged(before, _read(data)) if data["after"] == before.revision else before


def _change_line(before: DefinitionSet, after: DefinitionSet) -> str:
    """Returns the line with what changed between two sets. They share what did not change."""
    same = {id(each) for each in (*before.agents, *before.policies)}
    gone = [("agent", name) for name in sorted(_names(before.agents) - _names(after.agents))]
    gone += [("policy", name) for name in sorted(_names(before.policies) - _names(after.policies))]
    data = {
        "after": before.revision,
        "agents": [each.model_dump_json() for each in after.agents if id(each) not in same],
        "policies": [each.model_dump_json() for each in after.policies if id(each) not in same],
        "retired": gone,
        "revision": after.revision,
    }
    return f"{json.dumps(data)}\n"


def _names(definitions: Iterable[AnyDefinition]) -> set[str]:
    return {each.name for each in definitions}


def _appending(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_APPEND)


def _file_parts(definitions: DefinitionSet) -> Iterator[str]:
    """Yields the file's text in parts: all of it at once would take much memory."""
    yield '{"agents": ['
    yield from _listed(definitions.agents)
    yield '], "policies": ['
    yield from _listed(definitions.policies)
    yield f'], "revision": {definitions.revision}}}\n'


def _listed(definitions: Iterable[AnyDefinition]) -> Iterator[str]:
    for number, each in enumerate(definitions):
        yield f"{', ' if number else ''}{json.dumps(each.model_dump_json())}"
