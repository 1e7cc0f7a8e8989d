"""The client's resources of definitions: those of agents, and those of policies."""

from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType

from pydantic import JsonValue

from turnwise.client.connection import Gateway
from turnwise.client.request import ApiRequest, escape_path, get, post, with_revision
from turnwise.client.resources import paginate
from turnwise.facts.errors import DefinitionMissing
from turnwise.ports.definitions import DefinitionKind, FieldChange, content_differences
from turnwise.wire.definitions import (
    DefinitionChangePage,
    DefinitionChangeShown,
    DefinitionPage,
    DefinitionShown,
    TrialShown,
)

Content = Mapping[str, JsonValue]
NO_BOUNDS: Mapping[str, float] = MappingProxyType({})


class Definitions:
    """Reads and changes the definitions of agents, or of policies.

    A change takes `expected`, the newest version that the caller knows; 0 = there is none. If there is another one by now, it
    raises DefinitionConflict, and nothing is changed. A change is not retried if it may have succeeded. All methods raise the
    gateway's errors and Unreached, and DefinitionMissing for an unknown name or version.
    """

    def __init__(self, gateway: Gateway, kind: DefinitionKind) -> None:
        self._gateway, self._kind = gateway, kind

    def list(self) -> AsyncIterator[DefinitionShown]:
        """Yields the newest version of each definition, by name, with drafts and retired ones."""
        return paginate(self._gateway, DefinitionPage, get(f"/definitions/{self._kind}"), _versions)

    async def get(self, name: str, version: int | None = None) -> DefinitionShown:
        """Returns a version, or the newest one."""
        if version is not None:
            return await self._gateway.ask(DefinitionShown, get(self._path(name, "versions", str(int(version)))))
        page = await self._gateway.ask(DefinitionPage, get(self._path(name, "versions"), limit=1))
        if not page.definitions:
            raise DefinitionMissing(f"The {self._kind} {name!r} has no definition.", fix="It serves as in code.")
        return page.definitions[0]

    def versions(self, name: str) -> AsyncIterator[DefinitionShown]:
        """Yields the versions of a definition, newest first; none for an agent that serves as in code."""
        return paginate(self._gateway, DefinitionPage, get(self._path(name, "versions")), _versions)

    async def put(self, name: str, content: Content, *, expected: int) -> DefinitionShown:
        """Stores a new version with this content, and optionally with `status` and `note`. Raises DefinitionInvalid."""
        return await self._changed(ApiRequest("PUT", self._path(name), body=content), expected)

    async def patch(self, name: str, changes: Content, *, expected: int) -> DefinitionShown:
        """Stores the newest version with other values of some keys; None takes a key out. Raises DefinitionInvalid."""
        return await self._changed(ApiRequest("PATCH", self._path(name), body=changes), expected)

    async def retire(self, name: str, *, expected: int) -> DefinitionShown:
        """Takes the definition out of service. Its versions stay. Raises DefinitionInvalid for the root."""
        return await self._changed(ApiRequest("DELETE", self._path(name)), expected)

    async def diff(self, name: str, old: int, new: int | None = None) -> Sequence[FieldChange]:
        """Returns what differs between two versions, by path; `new` is the newest one by default."""
        before, after = await self.get(name, old), await self.get(name, new)
        return content_differences(*({**each.content, "status": each.status} for each in (before, after)))

    async def try_version(
        self, name: str, version: int | None = None, *, labelled: bool = False, limit: int = 1_000
    ) -> TrialShown:
        """Returns what a version would change. Nothing is stored, and no agent runs.

        Args:
            name: The agent or policy.
            version: None = the newest one.
            labelled: Only labelled decisions.
            limit: How many recorded decisions are made again, the newest ones.
        """
        body = {"version": version, "labelled": labelled, "limit": limit}
        return await self._gateway.ask(TrialShown, post(self._path(name, "try"), body))

    async def activate(
        self,
        name: str,
        version: int,
        *,
        expected: int,
        note: str = "",
        at_least: Mapping[str, float] = NO_BOUNDS,
        at_most: Mapping[str, float] = NO_BOUNDS,
        limit: int = 1_000,
    ) -> DefinitionShown:
        """Serves the content of a version, such as a draft, as a new version.

        Args:
            name: The agent or policy.
            version: The version.
            expected: The newest version.
            note: Why.
            at_least: Lower bounds on figures of a trial, such as `{"gain": 0}`.
            at_most: Upper bounds on figures of a trial, such as `{"changed_share": 0.05}`.
            limit: How many decisions the trial takes.

        Raises:
            DefinitionOutOfBounds: A figure misses its bound; nothing is changed.
        """
        body = {"version": version, "note": note, "min": dict(at_least), "max": dict(at_most), "limit": limit}
        return await self._changed(post(self._path(name, "activate"), body), expected)

    async def rollback(self, name: str, version: int | None = None, *, expected: int, note: str = "") -> DefinitionShown:
        """Serves an earlier version again, as a new version; None = the one that served before."""
        return await self._changed(post(self._path(name, "rollback"), {"version": version, "note": note}), expected)

    def _path(self, name: str, *more: str) -> str:
        return "/".join(["/agents" if self._kind == "agent" else "/policies", escape_path(name), *more])

    async def _changed(self, asked: ApiRequest, expected: int) -> DefinitionShown:
        return await self._gateway.ask(DefinitionShown, with_revision(asked, int(expected)), repeatable=False)


class AgentDefinitions(Definitions):
    """Reads and changes the definitions of agents."""

    async def add_example(self, name: str, text: str, *, expected: int) -> DefinitionShown:
        """Adds an example after those that the agent has, in code or by definition."""
        return await self._changed(post(self._path(name, "examples"), {"text": text}), expected)

    async def add_pattern(self, name: str, regex: str, *, expected: int, confidence: float = 0.8) -> DefinitionShown:
        """Adds an RE2 pattern after those that the agent has, in code or by definition."""
        return await self._changed(post(self._path(name, "patterns"), {"regex": regex, "confidence": confidence}), expected)

    def changes(self) -> AsyncIterator[DefinitionChangeShown]:
        """Yields the changes of all definitions, newest first: who, when, why and what."""
        return paginate(self._gateway, DefinitionChangePage, get("/definitions/changes"), lambda page: page.changes)


def _versions(page: DefinitionPage) -> Sequence[DefinitionShown]:
    return page.definitions
