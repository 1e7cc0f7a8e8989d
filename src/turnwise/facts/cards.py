"""What may be known of an agent without running it."""

import unicodedata
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from turnwise.facts.fact import Fact

Kind = Literal["function", "llm", "remote", "sequential", "parallel", "loop", "team", "flow"]
COMPOSITES: frozenset[str] = frozenset({"sequential", "parallel", "loop", "team", "flow"})
NAME_CHARACTERS = 64
RESERVED_NAMES = frozenset({"user"})


def check_name(name: str) -> str:
    """The name, if it can be an agent's (behaviour A16); ValueError says what is wrong with it."""
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
    """An RE2 expression that marks a message as this agent's, with the confidence of a match, 0 to 1.

    It is searched anywhere in the message, without regard to case. An inactive one is kept and never matches. `label` says
    in words what a match means, for the reason of a decision; empty = the expression itself is shown.
    """

    regex: str
    confidence: float = Field(default=0.8, ge=0.0, le=1.0)
    active: bool = True
    label: str = ""


class Skill(Fact):
    """One thing an agent can do, with example requests."""

    name: str
    description: str = ""
    examples: tuple[str, ...] = ()


class AgentCard(Fact):
    """An agent as the selectors see it.

    parent: the name of its parent in the tree, None for the root. resume: whether it may be resumed when it spoke last:
    `auto` follows the tree's permissions, `never`, `always` (behaviour A12). routable: whether selectors may choose it for
    a message. roles: the caller's roles that may reach it; empty = everyone. time_limit: seconds for one run of it; None =
    the invocation's deadline alone.
    """

    name: AgentName
    description: str = ""
    kind: Kind = "function"
    parent: str | None = None
    examples: tuple[str, ...] = ()
    skills: tuple[Skill, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    tags: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    disallow_transfer_to_parent: bool = False
    disallow_transfer_to_peers: bool = False
    resume: Literal["auto", "never", "always"] = "auto"
    routable: bool = True
    enabled: bool = True
    time_limit: float | None = Field(default=None, gt=0)

    @property
    def is_composite(self) -> bool:
        return self.kind in COMPOSITES
