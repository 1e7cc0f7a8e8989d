"""Evaluation data: JSON Lines of messages and dialogues with the expected agent.

A single message is `{"text", "agent"}`; agent null = out of scope. A dialogue is `{"id", "turns": [{"system", "user",
"agent"}]}`. `system` is the reply just before the user's message, empty at the start; agent null = not scored. `"also"`
lists other agents that the message has requests for; empty = none. Other keys are ignored, unless the figures are grouped by
them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from turnwise.facts.errors import CaseError
from turnwise.facts.tree import AgentCard, AgentTree, check_name

OUT_OF_SCOPE_ROOT = "nobody"
"""Root of the agents of an examples file. It receives out-of-scope messages."""
MAX_KEYS, MAX_KEY_CHARACTERS, MAX_GROUP_CHARACTERS = 8, 100, 60
"""How many keys cases may be grouped by, and the maximum lengths of a key and of a group's name."""


class Turn(NamedTuple):
    """One message with its expected agent."""

    system: str
    """The reply before the message; may be empty."""
    user: str
    """The message."""
    agent: str | None
    """The expected agent; None = out of scope, or in a dialogue unknown."""
    also: tuple[str, ...] | None = None
    """Other agents that the message has requests for; None = not labelled."""
    groups: Mapping[str, str] = {}
    """The turn's group by each key that was asked for; keys that neither it nor its dialogue has are missing."""


class Case(NamedTuple):
    """A single message (one turn), or a dialogue."""

    turns: tuple[Turn, ...]
    dialogue: str | None = None
    """The dialogue's id; None for a single message."""
    place: str = ""
    """File and line."""

    def scored(self, turn: Turn) -> bool:
        """Returns whether the turn is scored. A null agent is unknown in a dialogue, and out of scope in a single message."""
        return self.dialogue is None or turn.agent is not None


def read_cases(paths: Iterable[Path], by: Sequence[str] = ()) -> list[Case]:
    """Reads the cases of these files, in order.

    Args:
        paths: The files.
        by: Keys to group turns by, of the turn or else of its dialogue. A dot leads into an object: `kind.pending`.

    Raises:
        CaseError: A line is invalid, a file has no cases, or no case has one of the keys; the message names the file and the
            line, or the key.
    """
    cases: list[Case] = []
    for path in paths:
        before = len(cases)
        cases += [_case(line, place, by) for line, place in _lines(path)]
        if len(cases) == before:
            raise CaseError(f"{path} has no cases.", fix='A line is {"text": "…", "agent": "name"} or a dialogue.')
    for key in by:
        if not any(key in turn.groups for case in cases for turn in case.turns):
            fix = "Name a key of the turns or of the dialogues, such as part or kind.pending."
            raise CaseError(f"No case has a text, a number or a truth value under the key {key!r}.", fix=fix)
    return cases


def read_examples(path: Path) -> AgentTree:
    """Reads an examples file as a flat tree of agents, in order of first occurrence.

    A single message is an example of its agent. A dialogue contributes only the messages that start it or change the agent,
    since the others depend on the conversation. Lines without an agent are ignored. `{"agent": "x"}` without a text declares
    an agent; `"description"` describes it.

    Raises:
        CaseError: As for `read_cases`, or the file names no agent.
    """
    examples: dict[str, dict[str, None]] = {}
    descriptions: dict[str, str] = {}
    for line, place in _lines(path):
        declared = _declared(line, place)
        if declared is not None:
            name, description = declared
            examples.setdefault(name, {})
            descriptions[name] = description or descriptions.get(name, "")
        if "text" in line or "turns" in line:
            for text, agent in openings(_case(line, place)):
                examples.setdefault(_name(agent, place), {})[text] = None
    if not examples:
        raise CaseError(f"{path} names no agent.", fix='A line is {"text": "…", "agent": "name"}.')
    root = OUT_OF_SCOPE_ROOT
    while root in examples:
        root += "*"
    agents = [
        # An agent with only a name gets it as its description.
        AgentCard(name=name, description=descriptions.get(name) or ("" if texts else name), parent=root, examples=tuple(texts))
        for name, texts in examples.items()
    ]
    return AgentTree([AgentCard(name=root, resume="never"), *agents])


def unknown_agents(cases: Sequence[Case], tree: AgentTree) -> dict[str, int]:
    """Returns the agents in cases that the tree lacks, with their number of turns, in order of occurrence.

    Such turns always count as wrong.
    """
    found: dict[str, int] = {}
    for case in cases:
        for turn in case.turns:
            if turn.agent is not None and turn.agent not in tree:
                found[turn.agent] = found.get(turn.agent, 0) + 1
    return found


def openings(case: Case) -> Iterator[tuple[str, str]]:
    """Yields the messages that start a case or change its agent, with that agent."""
    before: str | None = None
    for turn in case.turns:
        if turn.agent is not None and turn.agent != before and turn.user.strip():
            yield turn.user, turn.agent
        before = turn.agent or before


def _lines(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Yields the objects of a JSON Lines file with their places. Raises CaseError."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                place = f"{path}:{number}"
                line = raw.removeprefix(b"\xef\xbb\xbf").strip()
                if line:
                    yield _object(line, place), place
    except OSError as error:
        raise CaseError(f"{path} cannot be read: {error.strerror or error}.", fix="Check the path.") from None


def _object(line: bytes, place: str) -> dict[str, Any]:
    """Returns the line's JSON object. Raises CaseError."""
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise CaseError(f"{place}: this is not UTF-8.", fix="Save the file as UTF-8.") from None
    except (ValueError, RecursionError) as error:
        cause = getattr(error, "msg", type(error).__name__)
        raise CaseError(f"{place}: this is not valid JSON: {cause}.", fix="Write one JSON object in each line.") from None
    if not isinstance(value, dict):
        raise CaseError(f"{place}: this is not a JSON object.", fix='Write {"text": "…", "agent": "name"}.')
    return value


def _declared(line: dict[str, Any], place: str) -> tuple[str, str] | None:
    """Returns the agent that a line declares, with its description; None when it declares none."""
    name, description = line.get("agent"), line.get("description")
    if not isinstance(name, str) or "turns" in line or ("text" in line and description is None):
        return None
    if not isinstance(description, str | None):
        raise CaseError(f"{place}: 'description' is not text.", fix="Write text, or leave it out.")
    return _name(name, place), _storable(description or "")


def _case(line: dict[str, Any], place: str, by: Sequence[str] = ()) -> Case:
    """Reads a line as a message or a dialogue. Raises CaseError."""
    if "turns" not in line:
        turn = Turn("", _text(line, "text", place), _agent(line, place), _also(line, place), _groups(by, line))
        return Case((turn,), None, place)
    turns = line["turns"]
    if not isinstance(turns, list) or not turns:
        raise CaseError(f"{place}: 'turns' is not a list of turns, or is empty.", fix="Give each turn as an object.")
    read = [_turn(turn, f"{place}, turn {number}") for number, turn in enumerate(turns, 1)]
    grouped = [turn._replace(groups=_groups(by, given, line)) for turn, given in zip(read, turns, strict=True)]
    return Case(tuple(grouped), _id(line, place), place)


def _groups(by: Sequence[str], *places: dict[str, Any]) -> dict[str, str]:
    """Returns the group by each key that one of the objects has, the first object first."""
    found = {key: next((name for at in places if (name := _group(at, key)) is not None), None) for key in by}
    return {key: name for key, name in found.items() if name is not None}


def _group(at: Any, key: str) -> str | None:
    """Returns the value under a dotted key as a group's name; None when there is none, or it is a list or an object."""
    for part in key.split("."):
        at = at.get(part) if isinstance(at, dict) else None
    if isinstance(at, str):
        return _storable(at)[:MAX_GROUP_CHARACTERS]
    return json.dumps(at)[:MAX_GROUP_CHARACTERS] if isinstance(at, bool | int | float) else None


def _id(line: dict[str, Any], place: str) -> str:
    return _storable(str(line.get("id", place)))


def _turn(turn: Any, place: str) -> Turn:
    if not isinstance(turn, dict):
        raise CaseError(f"{place}: this is not a JSON object.", fix='A turn is {"system": "…", "user": "…", "agent": "name"}.')
    system = _text(turn, "system", place) if "system" in turn else ""
    return Turn(system, _text(turn, "user", place), _agent(turn, place), _also(turn, place))


def _text(line: dict[str, Any], key: str, place: str) -> str:
    if key not in line:
        raise CaseError(f"{place}: the key {key!r} is missing.", fix="Add it.")
    if not isinstance(line[key], str):
        raise CaseError(f"{place}: {key!r} is not text.", fix="Put it in quotes.")
    return _storable(line[key])


def _storable(text: str) -> str:
    """Replaces lone surrogates, which JSON allows but which cannot be encoded or stored."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _agent(line: dict[str, Any], place: str) -> str | None:
    """Returns the expected agent, None for nobody. Raises CaseError."""
    if "agent" not in line:
        raise CaseError(f"{place}: the key 'agent' is missing.", fix="Name the agent, or write null.")
    agent = line["agent"]
    if agent is not None and (not isinstance(agent, str) or not agent or agent != _storable(agent)):
        raise CaseError(f"{place}: 'agent' is not an agent's name.", fix="Name the agent, or write null.")
    return agent


def _also(line: dict[str, Any], place: str) -> tuple[str, ...] | None:
    """Returns the further agents of a message; None if it is not labelled so. Raises CaseError."""
    named = line.get("also")
    if named is None:
        return None
    if not isinstance(named, list) or not all(isinstance(name, str) and name and name == _storable(name) for name in named):
        raise CaseError(f"{place}: 'also' is not a list of agents' names.", fix='Write names, such as ["orders"], or [].')
    return tuple(dict.fromkeys(named))


def _name(name: str, place: str) -> str:
    try:
        return check_name(name)
    except ValueError as error:
        raise CaseError(f"{place}: {error}", fix="Give it another name.") from None
