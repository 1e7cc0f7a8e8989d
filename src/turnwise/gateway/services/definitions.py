"""Definitions of agents and policies, for callers that may read or change them."""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.config.definition_documents import read_definition, written_definition
from turnwise.config.definition_editor import DefinitionEditor
from turnwise.facts.errors import (
    DefinitionConflict,
    DefinitionExists,
    DefinitionOutOfBounds,
    NothingHere,
    RequestInvalid,
)
from turnwise.facts.ids import Issuer
from turnwise.gateway.services.background import Locks
from turnwise.gateway.services.session_admission import Expected, SessionScope
from turnwise.learning.evaluate import Gate, missed
from turnwise.learning.replay import places
from turnwise.learning.trial import FIGURES, Trial, try_definition
from turnwise.ports.decisions import DecisionFilter, Page
from turnwise.ports.definitions import AnyDefinition, Author, DefinitionChange, DefinitionKind, conflict
from turnwise.runner import Runner
from turnwise.selection.cascade import Cascade

FIT_SECONDS = 20.0
"""How long a trial waits for the heads of the tried agents. Then nearest examples stand in for them."""


class Bounds(NamedTuple):
    """Bounds on figures of a trial, by the figures' names."""

    at_least: Mapping[str, float] = MappingProxyType({})
    at_most: Mapping[str, float] = MappingProxyType({})
    limit: int = 1
    """How many decisions are tried."""

    def gates(self) -> Sequence[Gate]:
        """Returns the bounds. Raises RequestInvalid for a figure that trials do not have."""
        bounds = (("min", self.at_least, False), ("max", self.at_most, True))
        for side, given, _ in bounds:
            for key in given:
                if key not in FIGURES:
                    problem = f"A trial has no figure {key!r}."
                    raise RequestInvalid(problem, fix=f"Figures: {', '.join(FIGURES)}.", where=("body", side, key))
        return [Gate(key, bound, at_most) for _, given, at_most in bounds for key, bound in given.items()]


NO_BOUNDS = Bounds()


class Definitions:
    """Reads and changes definitions. Reading needs `definitions:read`, changing `definitions:write`.

    Changes take the versions that the caller saw. When two write at once, one gets DefinitionConflict.
    """

    def __init__(
        self, editor: DefinitionEditor | None, runner: Runner, scope: SessionScope, issuer: Issuer, locks: Locks
    ) -> None:
        self._optional_editor, self._runner, self._scope = editor, runner, scope
        self._issuer, self._locks = issuer, locks

    async def page(self, what: DefinitionKind, *, after: str | None, limit: int) -> Page[AnyDefinition]:
        """Returns the newest version of each name, by name."""
        self._scope.require("definitions:read")
        return await self._editor.store.list(self._editor.app, what, after=after, limit=limit)

    async def get(self, what: DefinitionKind, name: str, version: int | None = None) -> AnyDefinition:
        """Returns a version, or the newest one. Raises DefinitionMissing."""
        self._scope.require("definitions:read")
        return await self._editor.version(what, name, version)

    async def history(self, what: DefinitionKind, name: str, *, after: str | None, limit: int) -> Page[AnyDefinition]:
        """Returns the versions of a name, newest first; none for an agent that serves without a definition.

        Raises:
            DefinitionMissing: There is nothing of that name.
        """
        self._scope.require("definitions:read")
        if what != "agent" or name not in self._editor.agents.tree:
            await self._editor.version(what, name)
        return await self._editor.store.history(self._editor.app, what, name, after=after, limit=limit)

    async def changes(self, *, after: str | None, limit: int) -> Page[DefinitionChange]:
        """Returns the audit log, newest first."""
        self._scope.require("definitions:read")
        return await self._editor.store.changes(self._editor.app, after=after, limit=limit)

    async def create(self, what: DefinitionKind, data: Mapping[str, Any]) -> AnyDefinition:
        """Stores the first version of a name."""
        self._scope.require("definitions:write")
        definition = read_definition(what, data)
        try:
            (stored,) = await self._editor.put([definition], {}, self._author(definition.note))
        except DefinitionConflict as error:
            raise DefinitionExists(
                f"The {what} {definition.name!r} has a definition already, version {error.current}.",
                fix="Change it with PUT or PATCH.",
            ) from None
        return stored

    async def replace(self, what: DefinitionKind, name: str, data: Mapping[str, Any], expected: Expected) -> AnyDefinition:
        """Stores a new version in place of the newest one."""
        self._scope.require("definitions:write")
        definition = read_definition(what, {**data, "name": name})
        seen = await self._expected_version(what, name, expected)
        (stored,) = await self._editor.put([definition], {(what, name): seen}, self._author(definition.note))
        return stored

    async def change(
        self, what: DefinitionKind, name: str, changes: Mapping[str, JsonValue], expected: Expected
    ) -> AnyDefinition:
        """Stores the newest version with other values of these keys. None takes a key out."""
        self._scope.require("definitions:write")
        newest = await self._editor.store.get(self._editor.app, what, name)
        written = written_definition(newest) if newest is not None else {}
        merged = {**written, "status": "active", "note": "", **changes}
        kept = {key: value for key, value in merged.items() if value is not None}
        return await self.replace(what, name, kept, expected)

    async def extend(self, name: str, key: str, more: JsonValue, expected: Expected) -> AnyDefinition:
        """Stores a new version of an agent with one more example or pattern, after those that it has.

        Args:
            name: The agent.
            key: `examples` or `patterns`.
            more: The new one.
            expected: The version that the caller saw.
        """
        self._scope.require("definitions:write")
        newest, tree = await self._editor.store.get(self._editor.app, "agent", name), self._editor.agents.tree
        known = written_definition(newest).get(key) if newest is not None else None
        if known is None and name in tree:
            known = tree.card(name).model_dump(mode="json")[key]
        return await self.change("agent", name, {key: [*(known if isinstance(known, list) else ()), more]}, expected)

    async def activate(
        self, what: DefinitionKind, name: str, version: int, expected: Expected, note: str, bounds: Bounds = NO_BOUNDS
    ) -> AnyDefinition:
        """Serves the content of a version as a new version. With bounds, it is tried before, as by `try_version`.

        Raises:
            DefinitionOutOfBounds: A figure of the trial misses a bound.
        """
        self._scope.require("definitions:write")
        seen = await self._expected_version(what, name, expected)
        if gates := bounds.gates():
            trial = await self.try_version(what, name, version, labelled=False, limit=bounds.limit)
            if failures := missed(gates, trial.data()):
                raise DefinitionOutOfBounds(
                    f"Version {version} of the {what} {name!r} was not activated. {' '.join(each.text for each in failures)}",
                    fix="Try it, and change the draft or the bounds.",
                )
        return await self._editor.activate(what, name, version, seen, self._author(note))

    async def roll_back(
        self, what: DefinitionKind, name: str, version: int | None, expected: Expected, note: str
    ) -> AnyDefinition:
        """Serves an earlier version again; None = the one that served before."""
        self._scope.require("definitions:write")
        seen = await self._expected_version(what, name, expected)
        earlier = await self._editor.previous(what, name) if version is None else version
        return await self._editor.activate(what, name, earlier, seen, self._author(note))

    async def retire(self, what: DefinitionKind, name: str, expected: Expected) -> AnyDefinition:
        """Takes a definition out of service."""
        self._scope.require("definitions:write")
        seen = await self._expected_version(what, name, expected)
        return await self._editor.retire(what, name, seen, self._author(""))

    async def try_version(self, what: DefinitionKind, name: str, version: int | None, *, labelled: bool, limit: int) -> Trial:
        """Tries a version on the newest decisions of all users. One trial runs at a time in this process.

        Needs the permissions `decisions:read` and `decisions:label`, too, for all users.

        Args:
            what: Agent or policy.
            name: Its name.
            version: None = the newest one.
            labelled: Only labelled decisions.
            limit: How many decisions.
        """
        self._scope.require("definitions:read")
        for permission in ("decisions:read", "decisions:label"):
            self._scope.users(permission, everybody=True)
        definition = await self._editor.version(what, name, version)
        runner, wanted = self._runner, DecisionFilter(labelled=True if labelled else None)
        async with self._locks.of("trial"):
            now, then = runner.cascade, await self._editor.tried(definition)
            try:
                fitted = await _prepared(now) and await _prepared(then)
                found = await places(runner.store, runner.app, wanted=wanted, limit=limit)
                return await try_definition(runner.store, definition, now, then, found, fitted=fitted)
            finally:
                then.close()

    @property
    def _editor(self) -> DefinitionEditor:
        if self._optional_editor is None:
            raise NothingHere("This app keeps no definitions.", fix="Load it from turnwise.yaml, with a SQL database as store.")
        return self._optional_editor

    def _author(self, note: str) -> Author:
        return Author(self._scope.caller.id, self._issuer.now(), note)

    async def _expected_version(self, what: DefinitionKind, name: str, expected: Expected) -> int:
        """Returns the newest version, if the caller expects it."""
        newest = await self._editor.store.get(self._editor.app, what, name)
        current = newest.version if newest is not None else 0
        if expected.revisions is not None and current not in expected.revisions:
            wanted = max(expected.revisions, default=0)
            raise conflict(what, name, expected=wanted, current=current)
        return current


async def _prepared(cascade: Cascade) -> bool:
    """Prepares a policy, and waits a while for its heads. Returns whether it has them."""
    await cascade.warm()
    if cascade.meaning is None:
        return True
    try:
        async with asyncio.timeout(FIT_SECONDS):
            return await cascade.meaning.fitted()
    except TimeoutError:
        return False
