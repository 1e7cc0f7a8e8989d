"""The definitions that serve now: only what changed since the last reading is read."""

from turnwise.ports.definitions import Definitions, DefinitionSet


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
            self.known, self.retired = newest, (retired | names) - {each.name for each in newest.agents}
        return newest


def merged(before: DefinitionSet, changed: DefinitionSet) -> DefinitionSet:
    """Returns the definitions with the changes that came after them, by name."""
    if not (changed.agents or changed.policies or changed.retired):
        return before._replace(revision=changed.revision)
    known = {(each.what, each.name): each for each in (*before.agents, *before.policies)}
    known |= {(each.what, each.name): each for each in (*changed.agents, *changed.policies)}
    for key in changed.retired:
        known.pop(key, None)
    agents = sorted((each for each in known.values() if each.what == "agent"), key=lambda each: each.name)
    policies = sorted((each for each in known.values() if each.what == "policy"), key=lambda each: each.name)
    return DefinitionSet(changed.revision, tuple(agents), tuple(policies))  # type: ignore[arg-type]
