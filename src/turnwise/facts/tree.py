"""The agents of an app as one validated, immutable tree."""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property

from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import DuplicateAgent, TreeCycle, TreeError

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
