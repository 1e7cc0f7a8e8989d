"""A configuration document: YAML as data, with the line and column of every value and the problems found in it.

Only text, numbers, booleans, null, lists and mappings are read. The parser's events are read here, because PyYAML's loaders
keep no lines, let a later key overwrite an earlier one, and crash on deep nesting.
"""

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml

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


_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|\$\{(?P<bad>[^}\n]{0,40})\}?")


class Expanded(NamedTuple):
    """A text after the variables in it were replaced."""

    text: str
    missing: tuple[str, ...]
    """Variables that are not set and have no default."""
    malformed: tuple[str, ...]
    """`${…}` expressions that are not valid references."""


def expand_variables(text: str, variables: Mapping[str, str]) -> Expanded:
    """Replaces every `${NAME}` and `${NAME:-default}`. `$${` produces a literal `${`. As in a shell, an empty variable takes
    the default.
    """
    if "${" not in text:
        return Expanded(text, (), ())
    missing: list[str] = []
    malformed: list[str] = []

    def value(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        if match[0] == "$${":
            return "${"
        if name is None:
            malformed.append(match[0])
            return ""
        if default is not None:
            return variables.get(name) or default
        if name not in variables:
            missing.append(name)
        return variables.get(name, "")

    return Expanded(_REFERENCE.sub(value, text), tuple(missing), tuple(malformed))


FILE_BYTES = 8 * 1024 * 1024
DEPTH = 50
VALUES = 500_000
"""The most values that a file may hold. An alias counts as all the values it refers to."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER = yaml.resolver.Resolver()
_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_TAG = "tag:yaml.org,2002:"
_NUMBER_BITS = 256
"""A longer whole number is read as text."""
_TABBED = re.compile(r"[ -]*\t")
_FIRST_STEP = "Begin it with `app: name`; `turnwise init` writes an example."


class _Node(NamedTuple):
    """A value with its mark."""

    value: Any
    mark: Mark
    size: int = 1
    """The number of values in it; an alias counts as often as it is used."""
    depth: int = 1
    """The levels of nesting in it, aliases included."""


class _Entry(NamedTuple):
    mark: Mark
    """Of the key."""
    node: _Node


def read_document(
    path: Path,
    variables: Mapping[str, str] | None = None,
    *,
    fix: str = _FIRST_STEP,
    expand: bool = True,
    scale: int = 1,
) -> Document:
    """Reads a YAML file as a document. Unset variables are collected in the document's problems.

    Args:
        path: the file.
        variables: replaces the environment's variables.
        fix: the advice in the error for a file that is no mapping.
        expand: whether references to variables are replaced.
        scale: how much larger than a configuration file it may be.

    Raises:
        ConfigError: if the file cannot be read, is too large, or is no YAML mapping.
    """
    text = _read_text(path, FILE_BYTES * scale)
    known = os.environ if variables is None else variables
    reader = _Reader(path, known if expand else None, VALUES * scale)
    root = reader.read(text)
    if not isinstance(root.value, dict):
        found = "is empty" if root.value is None else f"holds {kind_of(_plain(root))} at its top"
        raise ConfigError(
            f"{display_path(path)}:{root.mark.line}:{root.mark.column}: The file {found}, where keys and values were expected.",
            fix=fix,
        )
    marks: dict[Where, Mark] = {}
    document = Document(path, _flatten(root, (), marks), marks)
    for mark, problem, advice in reader.problems:
        document.report_at(mark, ConfigError(problem, fix=advice))
    return document


def _read_text(path: Path, most_bytes: int) -> str:
    """Reads the file as text. Raises ConfigError if it cannot be read, is too large, or is not UTF-8."""
    place = display_path(path)
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except IsADirectoryError:
        raise ConfigError(f"{place} is a folder.", fix="Name the file in it, such as turnwise.yaml.") from None
    except FileNotFoundError:
        raise ConfigError(f"{place} does not exist.", fix="Check the path, or make a project with `turnwise init`.") from None
    except OSError as error:
        raise ConfigError(f"{place} cannot be read: {error.strerror}.", fix="Check its permissions.") from None
    if len(data) > most_bytes:
        raise ConfigError(
            f"{place} is larger than {most_bytes // 1024 // 1024} MB, the most a configuration file may have.",
            fix="Keep large data, such as long patterns, out of it.",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{place}:{line}: The file is not UTF-8 text.", fix="Save it as UTF-8.") from None


class _Reader:
    def __init__(self, path: Path, variables: Mapping[str, str] | None, most_values: int) -> None:
        self._path = path
        self._variables = variables
        self._most_values = most_values
        self._anchors: dict[str, _Node] = {}
        self.problems: list[tuple[Mark, str, str]] = []

    def read(self, text: str) -> _Node:
        """Parses the text's only document."""
        try:
            events = yaml.parse(text, Loader=_LOADER)
            return self._document(events)
        except yaml.MarkedYAMLError as error:
            position: Any = error.problem_mark or error.context_mark
            message = ", ".join(part for part in (error.context, error.problem) if part)
            mark = _mark(position) if position else Mark(1)
            written = "\n".join(text.splitlines()[max(mark.line - 2, 0) : mark.line])
            raise self._error(mark, f"This is not YAML: {message}.", _yaml_hint(message, written)) from None
        except yaml.reader.ReaderError as error:
            before = text[: error.position]
            mark = Mark(before.count("\n") + 1, len(before) - before.rfind("\n"))
            raise self._error(mark, "A character here is not allowed in YAML.", "Remove control characters.") from None

    def _error(self, mark: Mark, problem: str, fix: str) -> ConfigError:
        return ConfigError(f"{display_path(self._path)}:{mark.line}:{mark.column}: {problem}", fix=fix)

    def _document(self, events: Iterator[Any]) -> _Node:
        """Returns the only document of the file. Raises for a second one."""
        root: _Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                raise self._error(_mark(event.start_mark), "A second document begins here.", "Remove the line `---`.")
            if isinstance(event, yaml.NodeEvent):
                root = self._node(event, events, depth=1)
        return root or _Node(None, Mark(1))

    def _node(self, event: Any, events: Iterator[Any], depth: int) -> _Node:
        """Returns the node that an event begins, with its children. Raises for too much nesting, size, or an unknown alias."""
        mark = _mark(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._error(mark, f"*{event.anchor} refers to nothing before it.", f"Write &{event.anchor} there.")
            return self._anchors[event.anchor]._replace(mark=mark)
        if depth > DEPTH:
            raise self._error(mark, f"More than {DEPTH} levels are nested here.", "Make it flatter.")
        if isinstance(event, yaml.ScalarEvent):
            node = _Node(self._scalar(event, mark), mark)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(event, events, depth)
        else:
            node = self._mapping(event, events, depth)
        if node.depth > DEPTH or node.size > self._most_values:
            problem = f"This holds more than {self._most_values:,} values, or aliases nested too deep."
            raise self._error(mark, problem, "Use fewer.")
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _sequence(self, start: Any, events: Iterator[Any], depth: int) -> _Node:
        """Reads the items of a list."""
        items: list[_Node] = []
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._node(event, events, depth + 1))
        return _collection(items, items, _mark(start.start_mark))

    def _mapping(self, start: Any, events: Iterator[Any], depth: int) -> _Node:
        """Reads the entries of a mapping. A repeated key is a problem; merged ones (`<<`) come first."""
        entries: dict[str, _Entry] = {}
        merged: dict[str, _Entry] = {}
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            mark = _mark(event.start_mark)
            if not isinstance(event, yaml.ScalarEvent):
                fix = "Write `key: value`; quote a key that begins with * or &."
                raise self._error(mark, "A key here is not plain text.", fix)
            key, value = event.value, self._node(next(events), events, depth + 1)
            if key == "<<" and not event.style:
                merged = {**self._merge(value, mark), **merged}
            elif key in entries:
                problem = f"The key {key!r} is here a second time; the first is in line {entries[key].mark.line}."
                self.problems.append((mark, problem, "Remove one of them."))
            else:
                entries[key] = _Entry(mark, value)
        entries = {**merged, **entries}
        return _collection(entries, [entry.node for entry in entries.values()], _mark(start.start_mark))

    def _merge(self, node: _Node, mark: Mark) -> dict[str, _Entry]:
        """Returns the entries that `<<` merges. Raises for anything but mappings."""
        sources = node.value if isinstance(node.value, list) else [node]
        merged: dict[str, _Entry] = {}
        for source in sources:
            if not isinstance(source.value, dict):
                raise self._error(mark, "`<<` needs keys and values to merge.", "Refer to a mapping: `<<: *name`.")
            merged = {**source.value, **merged}
        return merged

    def _scalar(self, event: Any, mark: Mark) -> Any:
        """Returns a plain value with its variables filled in. Raises for tags."""
        if event.tag is not None and event.tag not in {"!", _TAG + "str"}:
            tag = event.tag.replace(_TAG, "!!")
            raise self._error(mark, f"The tag {tag} is not allowed.", "Remove it: plain values only.")
        filled = Expanded(event.value, (), ())
        if self._variables is not None:
            filled = expand_variables(event.value, self._variables)
        if not filled.text.isascii() and any("\ud800" <= character <= "\udfff" for character in filled.text):
            self.problems.append((mark, "An environment variable here is not UTF-8 text.", "Set it to text."))
            return ""
        for name in filled.missing:
            fix = f"Set it, or write a default: ${{{name}:-…}}."
            self.problems.append((mark, f"The environment variable {name} is not set.", fix))
        for text in filled.malformed:
            fix = "Write ${NAME}, or $${ for the characters ${."
            self.problems.append((mark, f"{text!r} is not a reference to a variable.", fix))
        if event.style or event.tag is not None:
            return filled.text
        return _plain_scalar(filled.text)


def _plain_scalar(text: str) -> Any:
    """Returns an unquoted text as YAML's number, boolean or null, or as text."""
    tag = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False)).removeprefix(_TAG)  # type: ignore[no-untyped-call]
    if tag not in {"int", "float", "bool", "null"}:
        return text
    try:
        value = getattr(_CONSTRUCTOR, f"construct_yaml_{tag}")(yaml.ScalarNode(_TAG + tag, text))
    except ValueError:
        return text
    return text if isinstance(value, int) and value.bit_length() > _NUMBER_BITS else value


def _mark(position: Any) -> Mark:
    return Mark(int(position.line) + 1, int(position.column) + 1)


def _collection(value: Any, below: list[_Node], mark: Mark) -> _Node:
    return _Node(value, mark, 1 + sum(node.size for node in below), 1 + max((node.depth for node in below), default=0))


def _plain(node: _Node) -> Any:
    return {} if isinstance(node.value, dict) else [] if isinstance(node.value, list) else node.value


def _flatten(node: _Node, where: Where, marks: dict[Where, Mark]) -> Any:
    """Returns a node's data, and notes the line and column of every value."""
    marks.setdefault(where, node.mark)
    if isinstance(node.value, dict):
        for key, entry in node.value.items():
            marks[(*where, key)] = entry.mark
        return {key: _flatten(entry.node, (*where, key), marks) for key, entry in node.value.items()}
    if isinstance(node.value, list):
        return [_flatten(item, (*where, index), marks) for index, item in enumerate(node.value)]
    return node.value


def _yaml_hint(message: str, written: str) -> str:
    """Returns the likely fix for an error of the YAML parser."""
    begins_nothing = "cannot start any token" in message
    if "\\t" in message or "tab" in message or (begins_nothing and _TABBED.match(written.rpartition("\n")[2])):
        return "Indent with spaces: YAML allows no tabs there."
    if begins_nothing:
        return "Put text that begins with @, % or ` in quotes."
    if "escape" in message:
        return "Write patterns in single quotes: in double quotes a backslash begins an escape."
    if "mapping values are not allowed" in message:
        return "Look at the indentation, and quote text that holds `: `."
    if "${" in written and "flow" in message:
        return "Inside brackets, put ${…} in quotes, or write the value on a line of its own."
    if "did not find expected" in message or "could not find expected" in message:
        return "Look at the indentation, brackets and quotes of this line and the one before it."
    return "Look at this line and the one before it."
