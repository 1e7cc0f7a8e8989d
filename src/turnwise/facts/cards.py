"""Agent cards: the properties of an agent that are known without running it."""

import unicodedata
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

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
