"""Groups as messages: user and agent in turn, as the strictest provider wants them."""

from collections.abc import Iterable, Sequence

from turnwise.facts.content import Content, Part, Role, ToolCallPart, ToolResultPart
from turnwise.transcript.groups import Group
from turnwise.transcript.sizes import tokens_of_part
from turnwise.transcript.trimming import NOT_SHOWN, YOUR_TURN, is_thought

_BLANK = Content()


def assembled(groups: Iterable[Group]) -> tuple[tuple[Content, ...], int]:
    """The messages, and the estimate of their tokens. They begin and end with the user; where nobody spoke in between, a note
    stands for it.
    """
    messages: list[tuple[Role, list[Part]]] = []
    ids: set[str] = set()
    tokens = 0

    def add(role: Role, parts: Sequence[Part]) -> None:
        if messages and messages[-1][0] == role:
            messages[-1][1].extend(parts)
        elif parts:
            messages.append((role, list(parts)))

    def note(part: Part) -> None:
        nonlocal tokens
        tokens += tokens_of_part(part)
        add("user", [part])

    for group in groups:
        if group.said and not messages:
            note(NOT_SHOWN)
        elif is_thought(group) and messages[-1][0] == "agent":
            note(YOUR_TURN)  # some providers want thinking to come first in a message
        said, heard = _with_own_ids(group, ids)
        add("agent", said)
        add("user", heard)
        tokens += group.tokens
    if not messages or messages[-1][0] == "agent":
        note(YOUR_TURN)
    # Copied, not made: the parts were checked when they were read, and a long conversation holds thousands.
    return tuple(_BLANK.model_copy(update={"role": role, "parts": tuple(parts)}) for role, parts in messages), tokens


def _with_own_ids(group: Group, ids: set[str]) -> tuple[Sequence[Part], Sequence[Part]]:
    """What was said and heard, with ids of calls that no group before has, and no other call in this one."""
    calls = [part.call_id for part in group.said if isinstance(part, ToolCallPart)]
    if not calls:
        return group.said, group.heard
    fresh = []
    for id_ in calls:
        own, number = id_, 1
        while own in ids:
            number += 1
            own = f"{id_}-{number}"
        ids.add(own)
        fresh.append(own)
    if fresh == calls:
        return group.said, group.heard
    return _renamed(group.said, fresh), _renamed(group.heard, fresh)


def _renamed(parts: Sequence[Part], ids: Sequence[str]) -> list[Part]:
    left = iter(ids)
    return [
        part.model_copy(update={"call_id": next(left)}) if isinstance(part, ToolCallPart | ToolResultPart) else part
        for part in parts
    ]
