"""A configuration document: its data, the line of every value, and the problems found in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from turnwise.facts.errors import ConfigError, TurnwiseError

Where = tuple[str | int, ...]
"""Location of a value in a document: the keys and list positions that lead to it."""

AnyError = TypeVar("AnyError", bound=TurnwiseError)


def display_path(path: Path) -> str:
    """The path for display: relative if it lies below the working folder."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


class Document:
    """A configuration file as plain data (a mapping), with the line of every key and item, and the problems found so far.

    Readers report a problem and continue, so that all problems can be shown at once.
    """

    def __init__(self, path: Path, data: dict[str, Any], lines: Mapping[Where, int]) -> None:
        self.path = path
        self.data = data
        self._problems: list[tuple[int, TurnwiseError]] = []
        self._lines = lines

    @property
    def folder(self) -> Path:
        """The base of relative paths and of module imports."""
        return self.path.parent

    @property
    def problems(self) -> tuple[TurnwiseError, ...]:
        """The problems found so far, in the order of the file."""
        return tuple(error for _, error in sorted(self._problems, key=lambda problem: problem[0]))

    def problems_below(self, *keys: str) -> tuple[TurnwiseError, ...]:
        """The problems below these top-level keys."""
        begins = sorted((self.line((key,)), key) for key in self.data if (key,) in self._lines)
        found = []
        for line, error in sorted(self._problems, key=lambda problem: problem[0]):
            above = [key for begin, key in begins if begin <= line]
            if above and above[-1] in keys:
                found.append(error)
        return tuple(found)

    def below(self, key: str) -> "Document":
        """The same document with all of its data moved below that key."""
        moved = Document(self.path, {key: self.data}, {(key, *where): line for where, line in self._lines.items()})
        moved._problems = self._problems
        return moved

    def line(self, where: Where) -> int:
        """The line of that value, or of the nearest one around it; counted from 1."""
        while where not in self._lines and where:
            where = where[:-1]
        return self._lines.get(where, 1)

    def place(self, where: Where) -> str:
        """The location as `file:line`."""
        return f"{display_path(self.path)}:{self.line(where)}"

    def report(self, where: Where, problem: str, fix: str = "", kind: type[ConfigError] = ConfigError) -> None:
        """Adds a problem at that location."""
        self.report_error(where, kind(problem, fix=fix))

    def report_error(self, where: Where, error: TurnwiseError) -> None:
        """Adds an existing error, with its message prefixed by the location."""
        self.report_at(self.line(where), error)

    def report_at(self, line: int, error: TurnwiseError) -> None:
        """Adds an existing error at a line."""
        self._problems.append((line, with_location(error, f"{display_path(self.path)}:{line}")))


def with_location(error: AnyError, place: str) -> AnyError:
    """Prefixes the error's message with a location. Returns the same error."""
    error.problem = f"{place}: {error.problem}"
    error.args = (error.problem,)
    return error
