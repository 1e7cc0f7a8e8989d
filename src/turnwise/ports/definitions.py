"""The protocol of a store of definitions. `turnwise.testing.definition_store_suite` tests it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from turnwise.facts.definitions import AnyDefinition, Definition, DefinitionChange, DefinitionKind, PolicyDefinition
from turnwise.ports.decisions import Page

DefinitionKey = tuple[DefinitionKind, str]
"""Kind and name of a definition."""


class DefinitionSet(NamedTuple):
    """The served definitions of an app, all of one revision."""

    revision: int
    """The app's revision; 0 = nothing was ever stored."""
    agents: tuple[Definition, ...]
    """By name. Those with `unknown_fields` are among them; this release does not serve them."""
    policies: tuple[PolicyDefinition, ...]
    retired: tuple[DefinitionKey, ...] = ()
    """The names that were retired; empty in a full read."""


class Author(NamedTuple):
    """The author of a change, with its time and reason."""

    name: str
    at: datetime
    note: str = ""


class Definitions(Protocol):
    """The definitions of a store's apps. Raises StoreError.

    All changes of an app pass one revision number, which every change raises by one.
    """

    async def revision(self, app: str) -> int:
        """Returns the app's revision; 0 if nothing was ever stored. Reads one row."""
        ...

    async def served(self, app: str, *, after: int = 0, at: int | None = None) -> DefinitionSet:
        """Returns the served definitions with the revision that they have, in one transaction.

        Args:
            after: Only changes after this revision: definitions with a new served version, and retired names. 0 = all.
            at: Those that were served at this revision. None = now. A version that was pruned is missing.
        """
        ...

    async def list(self, app: str, kind: DefinitionKind, *, after: str | None = None, limit: int = 50) -> Page[AnyDefinition]:
        """Returns the newest version of each name, drafts and retired ones included, by name. Raises CursorInvalid."""
        ...

    async def get(self, app: str, kind: DefinitionKind, name: str, version: int | None = None) -> AnyDefinition | None:
        """Returns that version, or the newest one. None when there is none, or when it was pruned."""
        ...

    async def get_served(self, app: str, kind: DefinitionKind, name: str) -> AnyDefinition | None:
        """Returns the served version. None when there is none."""
        ...

    async def put(
        self,
        app: str,
        definitions: Sequence[AnyDefinition],
        expected: Mapping[DefinitionKey, int],
        author: Author,
        *,
        at: int | None = None,
    ) -> Sequence[AnyDefinition]:
        """Stores a new version of each definition, their revision and their audit entries, in one transaction.

        Args:
            definitions: One for each name. Their version, revision, author, time and note are replaced.
            expected: The newest version of each name that the caller saw; 0 or absent = the name has no version.
            author: The author of the change.
            at: The app's revision that the caller checked them with. None = any.

        Returns:
            The stored versions, in the order of `definitions`.

        Raises:
            DefinitionConflict: Another writer was first. Names both versions. Nothing is stored.
            DefinitionSetChanged: The app has another revision than `at`. Nothing is stored.
        """
        ...

    async def history(
        self, app: str, kind: DefinitionKind, name: str, *, after: str | None = None, limit: int = 50
    ) -> Page[AnyDefinition]:
        """Returns the versions of a name, newest first. Raises CursorInvalid."""
        ...

    async def changes(self, app: str, *, after: str | None = None, limit: int = 50) -> Page[DefinitionChange]:
        """Returns the audit log, newest first. Raises CursorInvalid."""
        ...

    async def prune(self, app: str, *, keep: int, revisions: Collection[int] = (), dry_run: bool = False) -> int:
        """Deletes old versions. The newest and the served version of each name always stay.

        Args:
            keep: How many of the newest versions of each name stay.
            revisions: Versions that served at these revisions stay at any age, because open invocations and kept decisions
                name them.
            dry_run: Only count.

        Returns:
            How many versions were deleted. Their audit entries stay.
        """
        ...


@runtime_checkable
class DefinitionStore(Protocol):
    """A session store that also stores definitions."""

    @property
    def definitions(self) -> Definitions: ...
