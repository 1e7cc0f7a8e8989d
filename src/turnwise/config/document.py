"""A configuration document: its data, the line and column of every value, and the problems found in it."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from turnwise.facts.errors import ConfigError, TurnwiseError

Where = tuple[str | int, ...]
"""Location of a value in a document: the keys and list positions that lead to it."""

AnyError = TypeVar("AnyError", bound=TurnwiseError)


class Mark(NamedTuple):
    """A position in a file. Lines and columns are counted from 1."""

    line: int
    column: int = 1


class _Problem(NamedTuple):
    mark: Mark
    where: Where
    error: TurnwiseError


def display_path(path: Path) -> str:
    """The path for display: relative if it lies below the working folder."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


class Document:
    """A configuration file as plain data (a mapping), with the mark of every key and item, and the problems found so far.

    Readers report a problem and continue, so that all problems can be shown at once.
    """

    def __init__(self, path: Path, data: dict[str, Any], marks: Mapping[Where, Mark]) -> None:
        self.path = path
        self.data = data
        self._problems: list[_Problem] = []
        self._marks = marks
        self._origins: dict[Where, Where] = {}

    @property
    def folder(self) -> Path:
        """The base of relative paths and of module imports."""
        return self.path.parent

    @property
    def problems(self) -> tuple[TurnwiseError, ...]:
        """The problems found so far, in the order of the file."""
        return tuple(problem.error for problem in sorted(self._problems, key=lambda problem: problem.mark))

    def problems_below(self, *keys: str) -> tuple[TurnwiseError, ...]:
        """The problems below these top-level keys, in the order of the file."""
        begins = sorted((self.mark((key,)), key) for key in self.data if (key,) in self._marks)
        found = []
        for mark, _, error in sorted(self._problems, key=lambda problem: problem.mark):
            above = [key for begin, key in begins if begin <= mark]
            if above and above[-1] in keys:
                found.append(error)
        return tuple(found)

    def has_problem(self, where: Where, *, aside: str = "children") -> bool:
        """True if a problem was found at that location or below it, except below its key `aside`."""
        origin = self.origin(where)
        found = [problem.where for problem in self._problems if problem.where[: len(origin)] == origin]
        return any(each[len(origin) : len(origin) + 1] != (aside,) for each in found)

    def origin(self, where: Where) -> Where:
        """The location in the file as it is written: items of a list have other positions after some were removed."""
        known = next((length for length in range(len(where), 0, -1) if where[:length] in self._origins), 0)
        return (*self._origins.get(where[:known], ()), *where[known:])

    def below(self, key: str) -> "Document":
        """The same document with all of its data moved below that key."""
        return self._copy({key: self.data}, {(key, *where): mark for where, mark in self._marks.items()})

    def without(self, removed: Collection[Where], is_kept: Callable[[Where], bool]) -> "Document":
        """A copy without those values. A list then has fewer items.

        Args:
            removed: locations of the values.
            is_kept: whether None takes the place of a removed value.
        """
        marks: dict[Where, Mark] = {}
        origins: dict[Where, Where] = {}

        def stays(where: Where) -> bool:
            return where not in removed or is_kept(where)

        def copy(value: Any, where: Where, to: Where) -> Any:
            origins[to] = where
            if where in self._marks:
                marks[to] = self._marks[where]
            if where in removed:
                return None
            if isinstance(value, dict):
                return {key: copy(each, (*where, key), (*to, key)) for key, each in value.items() if stays((*where, key))}
            if isinstance(value, list):
                indices = [index for index in range(len(value)) if stays((*where, index))]
                return [copy(value[each], (*where, each), (*to, index)) for index, each in enumerate(indices)]
            return value

        made = self._copy(copy(self.data, (), ()), marks)
        made._origins = origins
        return made

    def value(self, where: Where) -> Any:
        """The value at a location; None if there is none."""
        value: Any = self.data
        for step in where:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def mark(self, where: Where) -> Mark:
        """The mark of that value, or of the nearest one around it."""
        while where not in self._marks and where:
            where = where[:-1]
        return self._marks.get(where, Mark(1))

    def report(self, where: Where, problem: str, fix: str = "", kind: type[ConfigError] = ConfigError) -> None:
        """Adds a problem at that location."""
        self.report_error(where, kind(problem, fix=fix))

    def report_error(self, where: Where, error: TurnwiseError) -> None:
        """Adds an existing error, with its message prefixed by the location."""
        self.report_at(self.mark(where), error, self.origin(where))

    def report_at(self, mark: Mark, error: TurnwiseError, where: Where = ()) -> None:
        """Adds an existing error at a mark. An alias repeats values: an equal problem at the same mark is added once."""
        error = with_location(error, f"{display_path(self.path)}:{mark.line}:{mark.column}")
        if not any(known.mark == mark and known.error.problem == error.problem for known in self._problems):
            self._problems.append(_Problem(mark, where, error))

    def _copy(self, data: dict[str, Any], marks: Mapping[Where, Mark]) -> "Document":
        copy = Document(self.path, data, marks)
        copy._problems = self._problems
        return copy


def with_location(error: AnyError, place: str) -> AnyError:
    """Prefixes the error's message with a location. Returns the same error."""
    error.problem = f"{place}: {error.problem}"
    error.args = (error.problem,)
    return error


def kind_of(value: object) -> str:
    """Names the type of a value in terms of YAML, for error messages."""
    if value is None:
        return "nothing"
    names: dict[type, str] = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "keys and values")
