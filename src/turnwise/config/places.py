"""Where in a file something stands, and how a mistake there is told."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from turnwise.facts.errors import ConfigError, TurnwiseError

Where = tuple[str | int, ...]
"""The way from the top of a document to a value: keys and positions."""

AnyError = TypeVar("AnyError", bound=TurnwiseError)


def shown(path: Path) -> str:
    """The path as a reader wants it: relative when it lies below the working folder."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


class Document:
    """A configuration file as plain data (a mapping), with the line of every key and item, and what went wrong so far.

    It collects mistakes, so that all can be told at once; whoever finds one goes on with what is left.
    """

    def __init__(self, path: Path, data: dict[str, Any], lines: Mapping[Where, int]) -> None:
        self.path = path
        self.data = data
        self._problems: list[tuple[int, TurnwiseError]] = []
        self._lines = lines

    @property
    def folder(self) -> Path:
        """The folder that relative paths and modules are looked up in."""
        return self.path.parent

    @property
    def problems(self) -> tuple[TurnwiseError, ...]:
        """The mistakes found so far, from the top of the file to its end."""
        return tuple(error for _, error in sorted(self._problems, key=lambda problem: problem[0]))

    def problems_below(self, *keys: str) -> tuple[TurnwiseError, ...]:
        """Those of the mistakes that stand below these keys of the document's top."""
        begins = sorted((self.line((key,)), key) for key in self.data if (key,) in self._lines)
        found = []
        for line, error in sorted(self._problems, key=lambda problem: problem[0]):
            above = [key for begin, key in begins if begin <= line]
            if above and above[-1] in keys:
                found.append(error)
        return tuple(found)

    def below(self, key: str) -> "Document":
        """The same document as if all of it stood below that key."""
        moved = Document(self.path, {key: self.data}, {(key, *where): line for where, line in self._lines.items()})
        moved._problems = self._problems
        return moved

    def line(self, where: Where) -> int:
        """The line, from 1, of that value, or of the nearest one around it."""
        while where not in self._lines and where:
            where = where[:-1]
        return self._lines.get(where, 1)

    def place(self, where: Where) -> str:
        """`file:line`, as compilers write it."""
        return f"{shown(self.path)}:{self.line(where)}"

    def report(self, where: Where, problem: str, fix: str = "", kind: type[ConfigError] = ConfigError) -> None:
        """Adds a mistake found at that place."""
        self.report_error(where, kind(problem, fix=fix))

    def report_error(self, where: Where, error: TurnwiseError) -> None:
        """Adds a mistake that somebody else found, with the place put before it."""
        self.report_at(self.line(where), error)

    def report_at(self, line: int, error: TurnwiseError) -> None:
        """The same, for one who knows the line."""
        self._problems.append((line, placed(error, f"{shown(self.path)}:{line}")))


def placed(error: AnyError, place: str) -> AnyError:
    """The same error, its message beginning with the place."""
    error.problem = f"{place}: {error.problem}"
    error.args = (error.problem,)
    return error
