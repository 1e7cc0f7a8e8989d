"""Agent cards, the properties of agents that are known without running them, and an app's agents as one immutable tree."""

import hashlib
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from turnwise.facts.errors import DuplicateAgent, TreeCycle, TreeError
from turnwise.facts.fact import Fact, optional

Kind = Literal["function", "llm", "remote", "sequential", "parallel", "loop", "team", "flow"]
COMPOSITES: frozenset[str] = frozenset({"sequential", "parallel", "loop", "team", "flow"})
NAME_CHARACTERS = 64
RESERVED_NAMES = frozenset({"user"})


def check_name(name: str) -> str:
    """Returns the name if it is valid for an agent (behaviour A16). Raises ValueError with the reason."""
    if not 1 <= len(name) <= NAME_CHARACTERS:
        raise ValueError(f"An agent's name has 1 to {NAME_CHARACTERS} characters, this one has {len(name)}.")
    if name != name.strip():
        raise ValueError(f"The agent name {name!r} begins or ends with space.")
    if any(unicodedata.category(c) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} for c in name):
        raise ValueError(f"The agent name {name!r} has a character that cannot be printed, or a line break.")
    if name.casefold() in RESERVED_NAMES:
        raise ValueError(f"The agent name {name!r} is reserved: it is the author of users' messages.")
    return name


AgentName = Annotated[str, AfterValidator(check_name)]


class Pattern(Fact):
    """An RE2 expression that assigns matching messages to this agent. It is searched anywhere in the message, ignoring case."""

    regex: str
    """The RE2 expression."""
    confidence: float = Field(default=0.8, ge=0.0, le=1.0)
    """The confidence of a match, 0 to 1."""
    active: bool = True
    """An inactive pattern is kept but never matches."""
    label: str = ""
    """The meaning of a match in words, for the reason of a decision; empty shows the expression itself."""


class Skill(Fact):
    """One ability of an agent, with example requests."""

    name: str
    """The skill's name, in words."""
    description: str = ""
    """The work that the agent does with this skill; empty adds nothing."""
    examples: tuple[str, ...] = ()
    """Requests for this skill, as users write them."""


class LearnedExample(Fact):
    """An example request that was learned from a user's message.

    It is compared with messages like any example, and no reason, public card or model shows it.
    """

    text: str
    """The message, without personal data."""
    user: str = optional("")
    """The user who wrote the message; empty when a file had it. The erasure of the user removes the example."""
    session: str = optional("")
    """The session of the message; empty when a file had it."""
    sequence: int = optional(0)
    """The number of the message in the session."""


class AgentCard(Fact):
    """An agent as the selectors see it."""

    name: AgentName
    """The agent's name in the log: 1 to 64 printable characters, unique in the tree."""
    description: str = ""
    """The agent's work in a sentence."""
    not_for: str = optional("")
    """Limits of the agent's work, for the model that selects and for people."""
    kind: Kind = "function"
    """The kind of agent: a function, a language model, a remote server, or a composite of its children."""
    parent: str | None = None
    """The name of the parent in the tree; None for the root."""
    examples: tuple[str, ...] = ()
    """Requests for this agent, as users write them; five to ten route well."""
    learned: tuple[LearnedExample, ...] = optional(())
    """Further examples, learned from users' messages."""
    skills: tuple[Skill, ...] = ()
    """Abilities of the agent, each with examples."""
    patterns: tuple[Pattern, ...] = ()
    """Expressions that mark a message as this agent's."""
    tags: tuple[str, ...] = ()
    """Labels for your own selectors and for people; no built-in selector reads them."""
    roles: tuple[str, ...] = ()
    """The caller's roles that may reach the agent; empty means everyone."""
    disallow_transfer_to_parent: bool = False
    """True forbids the agent to hand over to its parent."""
    disallow_transfer_to_peers: bool = False
    """True forbids the agent to hand over to agents with the same parent."""
    resume: Literal["auto", "never", "always"] = "auto"
    """Resumption of the agent that answered last: `auto` follows the tree's permissions (behaviour A12)."""
    routable: bool = True
    """True if selectors may choose the agent for a message."""
    enabled: bool = True
    """False disables the agent and all agents below it."""
    time_limit: float | None = Field(default=None, gt=0)
    """Seconds for one run; None means only the invocation's deadline."""

    @property
    def is_composite(self) -> bool:
        return self.kind in COMPOSITES


_NAMES_SHOWN = 20


def _listed(names: Iterable[str], between: str = ", ") -> str:
    all_names = list(names)
    more = f"{between}… ({len(all_names)} in all)" if len(all_names) > _NAMES_SHOWN else ""
    return between.join(all_names[:_NAMES_SHOWN]) + more


def _access(card: AgentCard) -> tuple[object, ...]:
    """Returns the fields that say who may reach the agent and those below it."""
    return card.enabled, card.roles, card.routable, card.kind


class AgentTree:
    """The cards of an app and their parent-child relations. Immutable; a change is a new tree.

    Args:
        cards: The cards; `parent` names the parent, and the order of the cards is the order of children.

    Raises:
        DuplicateAgent: Two agents have the same name.
        TreeCycle: An agent is below itself.
        TreeError: There are no agents, there is not exactly one root, or a parent is unknown.
    """

    def __init__(self, cards: Iterable[AgentCard]) -> None:
        self._cards: dict[str, AgentCard] = {}
        for card in cards:
            self._add(card)
        self._digests: dict[str, bytes] = {}
        """Cache of `version`: hashes of cards."""
        self._required_roles: dict[str, tuple[bool, tuple[tuple[str, ...], ...]]] = {}
        """Cache of `reachable`: per agent, whether it is enabled, and lists of roles; a caller needs one role of each list."""
        self._children: dict[str, list[str]] = {name: [] for name in self._cards}
        self.root = self._connect()

    def _add(self, card: AgentCard) -> None:
        """Adds a card. Raises DuplicateAgent."""
        twin = self._cards.get(card.name)
        if twin is not None:
            places = " and ".join(f"below {c.parent!r}" if c.parent else "at the root" for c in (twin, card))
            raise DuplicateAgent(
                f"Two agents are named {card.name!r}: {places}.", fix="Names are identity: rename one of them."
            )
        self._cards[card.name] = card

    def _connect(self) -> str:
        """Puts each agent below its parent and returns the root. Raises TreeError, TreeCycle."""
        roots = [card.name for card in self._cards.values() if card.parent is None]
        for card in self._cards.values():
            if card.parent is None:
                continue
            if card.parent not in self._cards:
                raise TreeError(
                    f"Agent {card.name!r} names the parent {card.parent!r}, which does not exist.",
                    fix=f"Known agents: {_listed(self._cards)}.",
                )
            self._children[card.parent].append(card.name)
        self._refuse_cycles()
        if len(roots) != 1:
            found = f"several: {_listed(roots)}" if roots else "none"
            raise TreeError(f"A tree has exactly one root agent; found {found}.", fix="Give all but one a parent.")
        return roots[0]

    def _refuse_cycles(self) -> None:
        """Raises TreeCycle for an agent below itself."""
        settled: set[str] = set()
        for name in self._cards:
            path: dict[str, None] = {}
            at: str | None = name
            while at is not None and at not in settled:
                if at in path:
                    links = [*path]
                    circle = _listed([*links[links.index(at) :], at], " → ")
                    raise TreeCycle(f"Agents are below themselves: {circle}.", fix="Change one of their parents.")
                path[at] = None
                at = self._cards[at].parent
            settled.update(path)

    def replaced(self, cards: Iterable[AgentCard]) -> "AgentTree":
        """Returns the tree with these cards in place of those of the same names. Shares what did not change.

        The agents keep their places.

        Raises:
            ValueError: A card is of another agent or has another parent.
        """
        new = {card.name: card for card in cards}
        for name, card in new.items():
            if name not in self._cards or self._cards[name].parent != card.parent:
                raise ValueError(f"The agent {name!r} is new or moves: make a new tree.")
        made = AgentTree.__new__(AgentTree)
        made._cards = {**self._cards, **new}
        made._children, made.root = self._children, self.root
        made._digests = self._digests.copy()  # at once: another thread may add some
        for name in new:
            made._digests.pop(name, None)
        opens = all(_access(self._cards[name]) == _access(card) for name, card in new.items())
        made._required_roles = self._required_roles if opens else {}
        return made

    def same_access(self, other: "AgentTree") -> bool:
        """Returns whether `other` surely has the same agents at the same places, open to the same callers."""
        return self._required_roles is other._required_roles

    def __contains__(self, name: object) -> bool:
        return name in self._cards

    def __len__(self) -> int:
        return len(self._cards)

    def __iter__(self) -> Iterator[AgentCard]:
        return iter(self._cards.values())

    def card(self, name: str) -> AgentCard:
        """Returns the card with that name. Raises KeyError when there is none; check with `in` first."""
        return self._cards[name]

    def children(self, name: str) -> tuple[str, ...]:
        """Returns the names of the agent's children, in order."""
        return tuple(self._children[name])

    def chain(self, name: str) -> tuple[str, ...]:
        """Returns the agent, its parent, and so on up to and including the root."""
        links = [name]
        while (parent := self._cards[links[-1]].parent) is not None:
            links.append(parent)
        return tuple(links)

    def reachable(self, name: str, roles: Collection[str]) -> bool:
        """Returns whether a caller with these roles may reach the agent: it and its ancestors must be enabled and allow one
        of them.
        """
        return self._requirements(name)[0] and self.permits(name, roles)

    def permits(self, name: str, roles: Collection[str]) -> bool:
        """Returns whether the agent and its ancestors allow one of these roles, enabled or not."""
        needed = self._requirements(name)[1]
        return not needed or all(any(role in allowed for role in roles) for allowed in needed)

    def _requirements(self, name: str) -> tuple[bool, tuple[tuple[str, ...], ...]]:
        if name not in self._required_roles:
            chain = [self._cards[each] for each in self.chain(name)]
            needed = tuple(card.roles for card in chain if card.roles)
            self._required_roles[name] = all(card.enabled for card in chain), needed
        return self._required_roles[name]

    @cached_property
    def version(self) -> str:
        """Twelve hexadecimal digits that change with any card and with the order of children."""
        for name, card in self._cards.items():
            if name not in self._digests:
                self._digests[name] = hashlib.sha256(card.model_dump_json().encode()).digest()
        return hashlib.sha256(b"".join(self._digests[name] for name in self._cards)).hexdigest()[:12]

    def transfer_targets(self, name: str, *, disabled: bool = False) -> tuple[str, ...]:
        """Returns the agents to which this agent may transfer: its children, its parent, its siblings (behaviour A35).

        Leaves out the parent or the siblings when the card disallows them. A composite agent runs its children itself, so
        they are not targets of other agents.

        Args:
            disabled: Include disabled agents.
        """
        card = self._cards[name]
        targets = list(self._children[name]) if not card.is_composite else []
        parent = self._cards[card.parent] if card.parent else None
        if parent is not None and not parent.is_composite:
            if not card.disallow_transfer_to_parent:
                targets.append(parent.name)
            if not card.disallow_transfer_to_peers:
                targets += [sibling for sibling in self._children[parent.name] if sibling != name]
        return tuple(target for target in targets if disabled or self._cards[target].enabled)
