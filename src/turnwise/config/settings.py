"""Finds and reads `turnwise.yaml`. Imports, opens and builds nothing that the file names."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from turnwise.config.app_file import NOTES, AppFile
from turnwise.config.document import Document, Where, display_path, read_document
from turnwise.config.validation import validated
from turnwise.facts.errors import ConfigError
from turnwise.facts.limits import RunConfig

FILE_NAME = "turnwise.yaml"


class Settings(NamedTuple):
    """The content of a configuration file."""

    written: Document
    """The file as it is written."""
    document: Document
    """The file without its invalid values, and the problems of both."""
    file: AppFile
    """The valid part. An invalid value is replaced by its default, an invalid agent by None."""

    @property
    def root_name(self) -> str | None:
        """The name of the root agent. None if there is none, or if an import path names it."""
        root: str | None = self.file.root
        return None if root is None or ":" in root else root

    @property
    def run(self) -> RunConfig:
        """How messages are run, with the limits."""
        return RunConfig(**{**dict(self.file.run), "limits": self.file.limits})


def find_file(given: Path | str | None, start: Path | None = None) -> Path:
    """Finds the configuration file: the given one, the one in the given folder, or the nearest in this folder or above.

    Raises:
        ConfigError: if there is none, or the given one does not exist.
    """
    if given is not None:
        given = Path(given)
        file = given / FILE_NAME if given.is_dir() else given
        if not file.exists():
            fix = "Check the path, or make a project with `turnwise init`."
            raise ConfigError(f"{display_path(file)} does not exist.", fix=fix)
        return file
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
    raise ConfigError(
        f"There is no {FILE_NAME} here or in a folder above.",
        fix="Make a project with `turnwise init`, or name the file with --config FILE.",
    )


def read_settings(path: Path, variables: Mapping[str, str] | None = None) -> Settings:
    """Reads the settings of a file. All problems but those of YAML itself are in `document.problems`.

    Raises:
        ConfigError: if the file is no YAML.
    """
    document = read_document(path, variables)
    if "app" not in document.data:
        document.report((), "The key 'app' is missing.", "Write `app: name`: sessions are stored under that name.")
    if not document.data.get("agents") and not document.has_problem(("agents",)) and "root" not in document.data:
        where = ("agents",) if "agents" in document.data else ()
        document.report(where, "The file names no agents.", "Write `root: module:attribute`, or a list of `agents:`.")
    notes = {(key,) for key in document.data if key.startswith(NOTES)}
    read = validated(document.without(notes, _is_agent), AppFile, _is_agent)
    assert read is not None  # no key at the top is required
    return Settings(document, read[1], read[0])


def _is_agent(where: Where) -> bool:
    """True if an agent is at that location: an item of the list of agents, or of the children of another."""
    lists, indices = where[::2], where[1::2]
    return len(where) % 2 == 0 and lists[:1] == ("agents",) and set(lists[1:]) <= {"children"} and bool(indices)
