"""Changes definitions: each change is checked with all that serves, and stored as one, or refused with nothing changed."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from turnwise.config.defined_agents import DefinedAgents
from turnwise.config.definition_documents import invalid, size_mistakes
from turnwise.config.served_definitions import ServedDefinitions
from turnwise.facts.errors import (
    DefinitionInvalid,
    DefinitionMissing,
    DefinitionNewer,
    DefinitionSetChanged,
    TreeError,
    TurnwiseError,
)
from turnwise.facts.tree import AgentTree
from turnwise.ports.definitions import (
    SERVED_POLICY,
    AnyDefinition,
    Author,
    Definition,
    DefinitionKey,
    DefinitionKind,
    Definitions,
    DefinitionSet,
    PolicyDefinition,
    Status,
    conflict,
    copied,
)
from turnwise.selection.background_work import background_work
from turnwise.selection.cascade import Cascade

TRIES = 5
TryPolicy = Callable[[PolicyDefinition | None, AgentTree], Cascade]
"""Binds the policy, or that of the configuration, to the agents of a tree, only to try them. Raises a ConfigError."""


class DefinitionEditor:
    """Changes the definitions of one app.

    Args:
        store: Stores the definitions.
        app: The app's name.
        agents: Applies definitions to the agents in code.
        try_policy: Tries a policy with a tree.
        announce: Called after a change was stored, to tell all processes.
        served: Reads the definitions that serve. None reads them for the editor alone.
    """

    def __init__(
        self,
        store: Definitions,
        app: str,
        agents: DefinedAgents,
        try_policy: TryPolicy,
        announce: Callable[[], object] = lambda: None,
        served: ServedDefinitions | None = None,
    ) -> None:
        self.store = store
        self.app = app
        self.agents = agents
        self._try_policy = try_policy
        self._announce = announce
        self._served = served or ServedDefinitions(store, app)

    async def put(
        self, new: Sequence[AnyDefinition], expected: Mapping[DefinitionKey, int], author: Author
    ) -> Sequence[AnyDefinition]:
        """Stores new versions, as `Definitions.put`, after checking them together with everything that serves.

        Drafts are checked for themselves only: they need not fit what serves now.

        Raises:
            DefinitionInvalid: They have mistakes, or do not fit what serves. Nothing is stored.
            DefinitionConflict: Another writer was first. Nothing is stored.
        """
        problems = [each for definition in new for each in size_mistakes(definition)]
        problems += await self._mistakes(new)
        if problems:
            raise invalid(problems)
        await self._check_versions(new, expected)
        for _ in range(TRIES):
            revision = await self._check_all(new)
            try:
                stored = await self.store.put(self.app, new, expected, author, at=revision)
            except DefinitionSetChanged:
                continue
            self._announce()
            return stored
        raise DefinitionSetChanged(
            "Definitions kept changing while this change was checked; nothing was stored.", fix="Try again."
        )

    async def activate(self, what: DefinitionKind, name: str, version: int, expected: int, author: Author) -> AnyDefinition:
        """Serves the content of that version as a new version; rolling back is activating an older one (F6).

        Raises:
            DefinitionMissing: There is no such version.
        """
        return await self._copy(what, name, version, "active", expected, author)

    async def retire(self, what: DefinitionKind, name: str, expected: int, author: Author) -> AnyDefinition:
        """Serves the definition no more. An agent in code is then as in code; another one is gone."""
        return await self._copy(what, name, None, "retired", expected, author)

    async def tried(self, definition: AnyDefinition) -> Cascade:
        """Returns the policy bound to the agents that would serve with the definition. Stores nothing; the caller closes it.

        Raises:
            DefinitionInvalid: It has mistakes, or does not fit what serves.
        """
        problems = [*size_mistakes(definition), *await self._mistakes([definition])]
        if problems:
            raise invalid(problems)
        active = definition.replace(status="active")
        try:
            return await asyncio.to_thread(self._cascade_with, await self._served.read(), [active])
        except DefinitionInvalid:
            raise
        except TurnwiseError as error:
            raise invalid([error]) from error

    async def version(self, what: DefinitionKind, name: str, version: int | None = None) -> AnyDefinition:
        """Returns that version, or the newest one. Raises DefinitionMissing."""
        found = await self.store.get(self.app, what, name, version)
        if found is None:
            thing = "definition" if version is None else f"version {version} of the definition"
            fix = "`turnwise agents list` shows what there is."
            raise DefinitionMissing(f"There is no {thing} of the {what} {name!r}.", fix=fix)
        return found

    async def previous(self, what: DefinitionKind, name: str) -> int:
        """Returns the version that served before the one that serves now. Raises DefinitionMissing."""
        served = await self.store.get_served(self.app, what, name)
        cursor, content = None, served.content if served else None
        while True:
            page = await self.store.history(self.app, what, name, after=cursor)
            for each in page.items:
                if each.status == "active" and each.content != content:
                    return each.version
            cursor = page.next
            if cursor is None:
                raise DefinitionMissing(
                    f"The {what} {name!r} has no earlier version that served.", fix="Name the version to go back to."
                )

    async def _copy(
        self, what: DefinitionKind, name: str, version: int | None, status: Status, expected: int, author: Author
    ) -> AnyDefinition:
        """Stores a version again as the newest one with another status. Raises the errors of `put`."""
        source = await self.version(what, name, version)
        if source.unknown_fields and status == "active":
            raise newer(source)
        note = author.note or f"From version {source.version}."
        (stored,) = await self.put([copied(source, status)], {(what, name): expected}, author._replace(note=note))
        return stored

    async def _mistakes(self, new: Sequence[AnyDefinition]) -> list[TurnwiseError]:
        """Returns what is wrong with each definition by itself."""
        found: list[TurnwiseError] = []
        for definition in new:
            if definition.status == "retired":
                continue
            if definition.unknown_fields:
                found.append(newer(definition))
            elif isinstance(definition, Definition):
                try:
                    self.agents.instance_of(definition)
                    await self.agents.factory.check_address(definition)
                except TurnwiseError as error:
                    found.append(error)
        return found

    async def _check_versions(self, new: Sequence[AnyDefinition], expected: Mapping[DefinitionKey, int]) -> None:
        """Refuses stale changes before the others are checked: their mistakes may come from what changed meanwhile."""
        if len(new) > 1:
            return  # the store checks all of them at once
        for definition in new:
            newest = await self.store.get(self.app, definition.what, definition.name)
            current, wanted = newest.version if newest else 0, expected.get((definition.what, definition.name), 0)
            if current != wanted:
                raise conflict(definition.what, definition.name, expected=wanted, current=current)

    async def _check_all(self, new: Sequence[AnyDefinition]) -> int:
        """Checks the served set with the new definitions. Returns its revision. Raises DefinitionInvalid."""
        served = await self._served.read()
        changed = [definition for definition in new if definition.status != "draft"]
        if not changed:
            return served.revision
        try:
            await asyncio.to_thread(self._cascade_with, served, changed)
        except DefinitionInvalid:
            raise
        except TurnwiseError as error:
            raise invalid([error]) from error
        return served.revision

    def _cascade_with(self, served: DefinitionSet, changed: Sequence[AnyDefinition]) -> Cascade:
        """Returns the policy that is served, or changed, with the agents that would serve. Raises what does not fit."""
        root = self.agents.tree.root
        for definition in changed:
            if definition.status == "retired" and (definition.what, definition.name) == ("agent", root):
                raise TreeError(f"The root {root!r} cannot be retired.", fix="Put a version without fields: it is as in code.")
        agents = {each.name: each for each in served.agents}
        policies = {each.name: each for each in served.policies}
        for definition in changed:
            known: dict[str, AnyDefinition] = agents if isinstance(definition, Definition) else policies  # type: ignore[assignment]
            known.pop(definition.name, None)
            if definition.status == "active":
                known[definition.name] = definition
        others = [each for each in changed if isinstance(each, PolicyDefinition) and each.name != SERVED_POLICY]
        with background_work():
            tree = self.agents.tree_of(agents.values())
            made = self._try_policy(policies.get(SERVED_POLICY), tree)
            for definition in others:
                if definition.status == "active":
                    made = self._try_policy(definition, tree)
        return made


def newer(definition: AnyDefinition) -> DefinitionNewer:
    """Returns the error for a definition that a newer release wrote."""
    return DefinitionNewer(
        f"A newer Turnwise wrote the {definition.what} {definition.name!r}: this release does not know"
        f" {', '.join(definition.unknown_fields[:5])}.",
        fix="Change it with that release, or roll it back to an earlier version.",
    )
