"""Definitions of agents and of policies, and their store. A running app is built from them (behaviours C11, F1, F2).

A version never changes. Each change is a new version: activating, retiring and rolling back copy an older one. The served
version of a name is its newest one that is no draft. If that one is retired, the name has no definition.
`turnwise.testing.definition_store_suite` tests a store.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from pydantic import Discriminator, Field, JsonValue, Tag

from turnwise.facts.errors import DefinitionConflict
from turnwise.facts.fact import Fact, optional
from turnwise.facts.tree import AgentCard, AgentName, LearnedExample, Pattern, Skill
from turnwise.ports.decisions import Page

Status = Literal["draft", "active", "retired"]
DefinitionKind = Literal["agent", "policy"]
SERVED_POLICY = "main"
"""The name of the policy that an app decides with. Other policies are kept but do not decide."""


# How an agent is made


class MadeByFactory(Fact):
    """An agent that a registered factory makes."""

    use: str
    """The name under which the app registers the factory."""
    options: dict[str, JsonValue] = {}
    """The factory's keyword arguments."""


class MadeByModel(Fact):
    """An agent that uses a language model."""

    kind: Literal["llm"]
    model: str
    """The name of a registered model."""
    instructions: str = ""
    tools: tuple[str, ...] = ()
    """The names of registered tools, and of the built-in ones."""


class Slot(Fact):
    """A value that templates show: found in the message, or else in the session's state."""

    pattern: str = ""
    """An RE2 expression. Its first group is the value, or the whole match without a group. Empty = only the state has it."""
    state: str = ""
    """The key of the session's state that keeps the value. Empty = the slot's name."""


class ReplyTemplate(Fact):
    """One answer. The first template that fits is used."""

    text: tuple[str, ...] = Field(min_length=1)
    """Alternatives, of which a seeded choice takes one. `{name}` stands for a slot, `{{` and `}}` for braces."""
    when: dict[str, JsonValue] = {}
    """Values that the session's state must have, by key. null = the key is absent."""
    slots: tuple[str, ...] = ()
    """Slots that must have a value."""
    channels: tuple[str, ...] = ()
    """Channels of the message context; empty = all."""


class MadeOfTemplates(Fact):
    """A rule-based agent that answers from templates."""

    kind: Literal["reply"]
    templates: tuple[ReplyTemplate, ...] = Field(min_length=1)
    slots: dict[str, Slot] = {}
    seed: int = 0
    """Part of the choice among alternatives. Each attempt of an invocation makes the same choice."""


class MadeRemotely(Fact):
    """An agent of another system, reached by the A2A protocol."""

    remote: str
    """The URL of its card, or of the folder above it."""
    headers: dict[str, str] = Field(default={}, repr=False)
    """Headers of each request. `${NAME}` stands for an environment variable that the configuration releases."""


class MadeSomehow(Fact):
    """A form that this release does not know. It is kept, but not served."""


MadeBy = MadeByFactory | MadeByModel | MadeOfTemplates | MadeRemotely | MadeSomehow


def _form_of(value: Any) -> str:
    """Returns which form of `made_by` a value has, for the union's tag."""
    if isinstance(value, MadeBy):
        return _FORMS[type(value)]
    if not isinstance(value, dict):
        return "somehow"
    if value.get("kind") in ("llm", "reply"):
        return str(value["kind"])
    return "use" if "use" in value else "remote" if "remote" in value else "somehow"


_FORMS: dict[type, str] = {
    MadeByFactory: "use",
    MadeByModel: "llm",
    MadeOfTemplates: "reply",
    MadeRemotely: "remote",
    MadeSomehow: "somehow",
}
_MadeBy = Annotated[
    Annotated[MadeByFactory, Tag("use")]
    | Annotated[MadeByModel, Tag("llm")]
    | Annotated[MadeOfTemplates, Tag("reply")]
    | Annotated[MadeRemotely, Tag("remote")]
    | Annotated[MadeSomehow, Tag("somehow")],
    Discriminator(_form_of),
]


# Definitions


class Versioned(Fact):
    """One version of a definition: its name, who wrote it, and when."""

    what: ClassVar[DefinitionKind]
    name: str
    version: int = Field(default=0, ge=0)
    """From 1, without gaps for each name. 0 = not stored yet."""
    status: Status = "active"
    revision: int = Field(default=0, ge=0)
    """The app's revision that the version came with. 0 = not stored yet."""
    author: str = ""
    """The credential or the person that wrote the version."""
    created_at: datetime | None = None
    """None = not stored yet."""
    note: str = ""
    """Why the version was written."""

    @property
    def content(self) -> dict[str, JsonValue]:
        """The definition as its author wrote it, as JSON: without version, status, revision, author, time and note."""
        written: dict[str, JsonValue] = self.model_dump(mode="json", exclude={*Versioned.model_fields} - {"name"})
        return written

    @property
    def unknown_fields(self) -> tuple[str, ...]:
        """The paths of fields that a newer release wrote. Such a version is kept, but this release does not serve it."""
        return tuple(_unknown(self, ""))


class Definition(Versioned):
    """An agent's definition: fields of its card, and how the agent is made.

    A field that is None is not defined: an agent in code keeps its own value, another agent has the card's default. The empty
    value of a field replaces the value in code.
    """

    what: ClassVar[DefinitionKind] = "agent"
    name: AgentName
    description: str | None = optional(None)
    not_for: str | None = optional(None)
    """Limits of the agent's work."""
    examples: tuple[str, ...] | None = optional(None)
    learned: tuple[LearnedExample, ...] | None = optional(None)
    """Examples from users' messages, with their source."""
    skills: tuple[Skill, ...] | None = optional(None)
    patterns: tuple[Pattern, ...] | None = optional(None)
    tags: tuple[str, ...] | None = optional(None)
    parent: AgentName | None = optional(None)
    """None = the parent in code. An agent that is not in code is below the root."""
    roles: tuple[str, ...] | None = optional(None)
    disallow_transfer_to_parent: bool | None = optional(None)
    disallow_transfer_to_peers: bool | None = optional(None)
    resume: Literal["auto", "never", "always"] | None = optional(None)
    routable: bool | None = optional(None)
    enabled: bool | None = optional(None)
    time_limit: float | None = Field(default=None, gt=0, exclude_if=lambda value: value is None)
    made_by: _MadeBy | None = optional(None)
    """How the agent is made. None = the agent of this name in code."""

    @property
    def defined_fields(self) -> tuple[str, ...]:
        """The fields that the definition decides; all others come from code or have their defaults."""
        return tuple(name for name in (*CARD_FIELDS, "made_by") if getattr(self, name) is not None)

    def card_of(self, code: AgentCard | None = None) -> AgentCard:
        """Returns the card: that of the agent in code, or an empty one, with the fields of the definition."""
        defined = {name: value for name in CARD_FIELDS if (value := getattr(self, name)) is not None}
        return code.replace(**defined) if code is not None else AgentCard(name=self.name, **defined)


CARD_FIELDS: tuple[str, ...] = tuple(
    name for name in Definition.model_fields if name in AgentCard.model_fields and name != "name"
)
"""The fields of a definition that replace those of an agent's card."""


class PolicyDefinition(Versioned):
    """A policy's definition, with the keys that a configuration file has under `policy`."""

    what: ClassVar[DefinitionKind] = "policy"
    name: str = SERVED_POLICY
    policy: str | dict[str, JsonValue]
    """The name of a built-in policy; or `use` with changes; or `stages`, `default`, `segments` and `several`."""


AnyDefinition = Definition | PolicyDefinition


class DefinitionChange(Fact):
    """One entry of the audit log of definitions: a new version, what wrote it, and what changed."""

    revision: int
    """The app's revision that the change came with. Changes of one transaction share it."""
    what: DefinitionKind
    name: str
    before: int
    """The version before; 0 = none."""
    after: int
    author: str
    created_at: datetime
    note: str = ""
    fields: tuple[str, ...] = ()
    """The paths of the fields that changed."""
    values: dict[str, tuple[JsonValue, JsonValue]] = {}
    """Before and after, for the fields that decide about access (`ACCESS_FIELDS`)."""


ACCESS_FIELDS = (
    "status",
    "enabled",
    "parent",
    "roles",
    "routable",
    "resume",
    "disallow_transfer_to_parent",
    "disallow_transfer_to_peers",
)
"""The fields that the audit log keeps with their values."""


class FieldChange(Fact):
    """One difference between two versions."""

    path: str
    """The field, such as `made_by.model`."""
    before: JsonValue
    """None = absent."""
    after: JsonValue


def differences(old: AnyDefinition | None, new: AnyDefinition) -> tuple[FieldChange, ...]:
    """Returns what differs in the content and the status of two versions, by path. Lists are compared as wholes."""
    return content_differences({**old.content, "status": old.status} if old else {}, {**new.content, "status": new.status})


def content_differences(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> tuple[FieldChange, ...]:
    """Returns what differs in two contents, by path. Lists are compared as wholes."""
    before, after = _flat(old), _flat(new)
    paths = sorted(before.keys() | after.keys())
    changes = (FieldChange(path=path, before=before.get(path), after=after.get(path)) for path in paths)
    return tuple(change for change in changes if change.before != change.after)


def conflict(what: DefinitionKind, name: str, *, expected: int, current: int) -> DefinitionConflict:
    """Returns the error for a change of a version that is not the newest one; 0 = none."""
    has, wanted = (f"version {each}" if each else "no version" for each in (current, expected))
    problem = f"The {what} {name!r} has {has}, but {wanted} was expected."
    fix = "Read it again, and make the change to what is there now."
    return DefinitionConflict(problem, fix=fix, expected=expected, current=current)


def copied(of: AnyDefinition, status: Status) -> AnyDefinition:
    """Returns a new version with the content of an older one. The store's caller sets author and note."""
    return of.replace(version=0, revision=0, status=status, author="", created_at=None, note="")


def _flat(content: Mapping[str, JsonValue], above: str = "") -> dict[str, JsonValue]:
    flat: dict[str, JsonValue] = {}
    for key, value in content.items():
        path = f"{above}{key}"
        flat |= _flat(value, f"{path}.") if isinstance(value, dict) and value else {path: value}
    return flat


def _unknown(value: Any, above: str) -> list[str]:
    """Returns the paths of fields that no model of this release has. A form that is unknown as a whole counts as one."""
    if isinstance(value, MadeSomehow):
        return [above.rstrip(".")]
    if isinstance(value, Fact):
        found = [f"{above}{name}" for name in value.model_extra or ()]
        for name in type(value).model_fields:
            found += _unknown(getattr(value, name), f"{above}{name}.")
        return found
    if isinstance(value, tuple):
        return [path for number, item in enumerate(value) for path in _unknown(item, f"{above}{number}.")]
    if isinstance(value, dict):
        return [path for key, item in value.items() if isinstance(item, Fact) for path in _unknown(item, f"{above}{key}.")]
    return []


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
