"""The definitions that serve now: only what changed since the last reading is read."""

from collections.abc import Sequence, Set
from operator import attrgetter
from typing import TypeVar

from turnwise.ports.definitions import Definition, Definitions, DefinitionSet, PolicyDefinition

_Version = TypeVar("_Version", Definition, PolicyDefinition)


class ServedDefinitions:
    """The newest served definitions of an app.

    Args:
        store: Stores them.
        app: The app's name.
    """

    def __init__(self, store: Definitions, app: str) -> None:
        self._store, self._app = store, app
        self.known = DefinitionSet(0, (), ())
        """As they were read last."""
        self.retired: frozenset[str] = frozenset()
        """The names of agents that are retired."""

    async def read(self) -> DefinitionSet:
        """Returns those of the newest revision. Raises StoreError."""
        before, retired = self.known, self.retired
        changed = await self._store.served(self._app, after=before.revision)
        newest = merged(before, changed)
        names = {name for kind, name in changed.retired if kind == "agent"}
        if newest.revision >= self.known.revision:  # another reading may have been faster
            self.known, self.retired = newest, (retired | names) - {each.name for each in changed.agents}
        return newest


def merged(before: DefinitionSet, changed: DefinitionSet) -> DefinitionSet:
    """Returns the definitions with the changes that came after them, by name."""
    if not (changed.agents or changed.policies or changed.retired):
        return before._replace(revision=changed.revision)
    agents = _merged(before.agents, changed.agents, {name for kind, name in changed.retired if kind == "agent"})
    policies = _merged(before.policies, changed.policies, {name for kind, name in changed.retired if kind == "policy"})
    return DefinitionSet(changed.revision, agents, policies)


def _merged(before: Sequence[_Version], changed: Sequence[_Version], gone: Set[str]) -> tuple[_Version, ...]:
    if not changed and not gone:
        return tuple(before)
    known = {each.name: each for each in before} | {each.name: each for each in changed}
    for name in gone:
        known.pop(name, None)
    return tuple(sorted(known.values(), key=attrgetter("name")))
