"""The definitions that this machine served last, as a file: a process that starts without the database serves them (F7)."""

import hashlib
import json
import logging
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from turnwise.facts.definitions import AnyDefinition, Definition, PolicyDefinition
from turnwise.ports.definitions import DefinitionSet
from turnwise.selection.background_work import background_work

_OTHERS = stat.S_IRWXG | stat.S_IRWXO

log = logging.getLogger("turnwise.config")


class KeptDefinitions:
    """A file that only this user may read and write. Its methods do not raise: an unusable file acts as a missing one.

    Args:
        folder: The cache folder.
        app: The app's name.
        store: The session store's URL or import path; it is not written.
    """

    def __init__(self, folder: Path, app: str, store: str) -> None:
        digest = hashlib.sha256(f"{app}\0{store}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._path = folder / f"definitions-{digest}.json"

    def read(self) -> DefinitionSet | None:
        """Returns the definitions; None = there are none, or the file may be another user's."""
        try:
            with self._path.open(encoding="utf-8") as file:
                status = os.fstat(file.fileno())
                if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & _OTHERS):
                    log.warning("The kept definitions %s are not used: others may have written them.", self._path)
                    return None
                data = json.load(file)
            agents = tuple(Definition.model_validate_json(each) for each in data["agents"])
            policies = tuple(PolicyDefinition.model_validate_json(each) for each in data["policies"])
            return DefinitionSet(int(data["revision"]), agents, policies)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, ValidationError) as problem:
            log.warning("The kept definitions %s cannot be used (%s).", self._path, type(problem).__name__)
            return None

    def write(self, definitions: DefinitionSet) -> None:
        """Replaces the file."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix="new-", suffix=".tmp", dir=self._path.parent)  # with mode 600
            try:
                with open(handle, "w", encoding="utf-8") as file, background_work():
                    file.writelines(_written(definitions))
                os.replace(name, self._path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as problem:
            log.warning("The definitions cannot be kept in %s: %s", self._path.parent, problem.strerror)


def _written(definitions: DefinitionSet) -> Iterator[str]:
    """Yields the file's text in parts: all of it at once would take much memory."""
    yield f'{{"revision": {definitions.revision}, "agents": ['
    yield from _listed(definitions.agents)
    yield '], "policies": ['
    yield from _listed(definitions.policies)
    yield "]}"


def _listed(definitions: Iterable[AnyDefinition]) -> Iterator[str]:
    for number, each in enumerate(definitions):
        yield f"{', ' if number else ''}{json.dumps(each.model_dump_json())}"
