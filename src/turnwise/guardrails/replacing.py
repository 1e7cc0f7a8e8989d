"""A guardrail that puts labels in place of what its rules find, or blocks what holds it."""

from collections.abc import Collection
from typing import Literal, get_args

from turnwise.facts.content import Content
from turnwise.facts.errors import ConfigError
from turnwise.guardrails.findings import Find, kinds_in, labelled
from turnwise.guardrails.strings import changed_aside
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place

Action = Literal["rewrite", "block"]
ACTIONS: tuple[Action, ...] = get_args(Action)
PLACES: tuple[Place, ...] = get_args(Place)


class Replacing:
    """Looks at all strings of a content, nested ones too, at its `places`.

    what: what it looks for, in words that follow "holds". reach: how many characters it takes to recognise any of it.
    """

    def __init__(self, name: str, what: str, find: Find, *, reach: int, action: Action, places: Collection[Place]) -> None:
        self.name = name
        self.reach: int | None = reach if "answer" in checked_places(name, places) else 0
        self._what, self._find, self._places = what, find, frozenset(places)
        self._action = checked_action(name, action)

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        """Names the kinds of what was found, never what was found."""
        if place not in self._places:
            return ALLOW
        kinds: set[str] = set()

        def change(text: str) -> str:
            found = kinds_in(text, self._find)
            kinds.update(found)
            return labelled(text, self._find) if found else text

        left = await changed_aside(content, place, change)
        if not kinds:
            return ALLOW
        reason = f"It held {self._what}: {', '.join(sorted(kinds))}."
        return (
            GuardrailVerdict("block", reason=reason) if self._action == "block" else GuardrailVerdict("rewrite", left, reason)
        )


def checked_action(name: str, action: str) -> Action:
    """ConfigError for an action that there is not."""
    for known in ACTIONS:
        if action == known:
            return known
    raise ConfigError(f"The guardrail {name!r} cannot {action!r}.", fix="Its action is rewrite or block.")


def checked_places(name: str, places: Collection[str]) -> Collection[str]:
    """ConfigError for a place that there is not."""
    for place in places:
        if place not in PLACES:
            raise ConfigError(f"The guardrail {name!r} cannot stand at {place!r}.", fix=f"Places are {', '.join(PLACES)}.")
    return places
