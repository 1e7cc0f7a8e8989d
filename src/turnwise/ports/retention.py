"""Rules about how long stored data is kept, and the protocol of a store that deletes older data in short steps."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from pydantic import Field

from turnwise.facts.fact import Fact
from turnwise.facts.sessions import SessionKey


class AgeRule(Fact):
    """Keeps data for a number of days."""

    days: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """None means forever."""


class SessionRule(AgeRule):
    """Keeps sessions by age since the last event, number and size. Artifacts are deleted with their session."""

    most: int | None = Field(default=None, ge=1)
    """The number of a user's sessions that stay, the last updated ones; None means all."""
    megabytes: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The size of all events of a user; the sessions that were updated longest ago go first. None means any size."""


class MemoryRule(AgeRule):
    """Keeps the entries of users' memories by age and number. The entries that it replaces are pruned with it."""

    most: int | None = Field(default=None, ge=1)
    """The number of a user's entries that stay, the newest ones; None means all."""


class DefinitionRule(Fact):
    """Keeps versions of definitions. A version that an open invocation or a kept decision names stays at any age."""

    versions: int | None = Field(default=None, ge=1)
    """The number of the newest versions of each definition that stay; None means all."""


class RetentionRules(Fact):
    """The rules of one user, or of all."""

    sessions: SessionRule = SessionRule()
    """Whole sessions with all their rows but labels."""
    decisions: AgeRule = AgeRule()
    """The text and the record of decisions. The event's short selection and labels stay."""
    invocations: AgeRule = AgeRule()
    """The entries of ended invocations in lists of invocations. Their events stay."""
    inbox: AgeRule = AgeRule()
    """Finished messages. A message that is sent again under the same id is then answered again."""
    pushes: AgeRule = AgeRule()
    """Push subscriptions to ended invocations."""
    memories: MemoryRule = MemoryRule()
    """The memory of users. Their texts are overwritten in recorded steps, too."""


class Retention(RetentionRules):
    """How long an app keeps its data. By default, everything is kept. Sessions in use and users on hold are spared."""

    definitions: DefinitionRule = DefinitionRule()
    """Old versions of definitions of agents and policies."""
    users: Mapping[str, RetentionRules] = {}
    """Rules of single users, in place of the general ones."""
    every_seconds: float = Field(default=3600.0, gt=0, allow_inf_nan=False)
    """The pause between two passes in the background."""

    def of(self, user: str) -> RetentionRules:
        """Returns the rules of a user."""
        return self.users.get(user, self)

    @property
    def is_empty(self) -> bool:
        """True if everything is kept."""
        every = (self, *self.users.values())
        return self.definitions.versions is None and not any(
            rule.days or getattr(rule, "most", None) or getattr(rule, "megabytes", None)
            for rules in every
            for rule in (rules.sessions, rules.decisions, rules.invocations, rules.inbox, rules.pushes, rules.memories)
        )


class Pruned(NamedTuple):
    """The result of one step."""

    counts: Mapping[str, int]
    """The number of deleted items by kind: sessions, decisions, invocations, inbox, pushes."""
    sessions: Sequence[SessionKey]
    """The deleted sessions; the caller deletes their artifacts."""
    revisions: Collection[int]
    """The revisions of definitions that these users' decisions name. Empty unless versions of definitions are to be pruned."""
    next: str | None
    """The user after which the next step continues; None at the end."""


@runtime_checkable
class PrunableStore(Protocol):
    """A session store that can delete old data. Raises StoreError."""

    async def prune(
        self, app: str, retention: Retention, *, now: datetime, after: str | None = None, dry_run: bool = False
    ) -> Pruned:
        """Deletes what the rules no longer keep of the next users. Sessions in use and users on hold are spared.

        Each transaction changes at most 500 rows. A step that a crash interrupts is repeated by the next pass.

        Args:
            after: Where to continue; None begins a new pass.
            dry_run: Only count.
        """
        ...
