"""Builds the agent card: the gateway's name, interfaces, security schemes, and the agents as skills. Pure."""

from collections.abc import Iterator, Sequence
from itertools import islice

from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    APIKeySecurityScheme,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

from turnwise.facts import tree as ours
from turnwise.facts.callers import Caller
from turnwise.facts.gateway import AuthConfig
from turnwise.facts.tree import AgentTree
from turnwise.gateway.a2a.messages import INPUT_MODES
from turnwise.gateway.a2a.request import PROTOCOL_VERSION
from turnwise.gateway.front import Front
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services import Services
from turnwise.selection.eligibility import eligible

MOST_SKILLS = 200
"""Maximum number of agents on a card, in tree order. Agents beyond it can still be addressed."""
MOST_EXAMPLES, EXAMPLE_CHARACTERS, DESCRIPTION_CHARACTERS = 5, 200, 500
"""Limits for each skill."""
BINDINGS = (("JSONRPC", "/a2a"), ("HTTP+JSON", "/a2a/rest"))
"""Protocol bindings and their paths."""
OUTPUT_MODES = ("text/plain", "application/json")
ANONYMOUS = Caller(id="-", agent_roles=())
"""The reader of the public card: an anonymous caller without roles."""


def public_card(front: Front, base: str) -> AgentCard:
    """Builds the card of agents that need no role. base: this gateway's URL without a trailing slash."""
    return _card(front, base, Redactor(ANONYMOUS, front.runner.tree))


def extended_card(front: Front, services: Services, base: str) -> AgentCard:
    """Builds the card of all agents that the caller may reach. Raises Forbidden without `agents:read`."""
    services.scope.require("agents:read")
    return _card(front, base, Redactor(services.scope.caller, front.runner.tree))


def _card(front: Front, base: str, view: Redactor) -> AgentCard:
    """Builds the agent card with the agents that the view shows as skills."""
    config, tree, supports_push = front.config.protocols.a2a, front.runner.tree, front.state.push_feed.kept is not None
    root = tree.card(tree.root)
    description = config.description or (root.description if view.reaches(root.name) else "")
    schemes = dict(_schemes(front.config.auth))
    return AgentCard(
        name=config.name or front.runner.app,
        description=_short(description or f"The gateway of {front.runner.app}."),
        version=config.version,
        supported_interfaces=[
            AgentInterface(url=base + path, protocol_binding=binding, protocol_version=PROTOCOL_VERSION)
            for binding, path in BINDINGS
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=supports_push, extended_agent_card=True),
        security_schemes=schemes,
        security_requirements=[SecurityRequirement(schemes={name: StringList()}) for name in schemes],
        default_input_modes=INPUT_MODES,
        default_output_modes=OUTPUT_MODES,
        skills=[_skill(card) for card in islice(_routable(tree, view), MOST_SKILLS)],
    )


def _routable(tree: AgentTree, view: Redactor) -> Iterator[ours.AgentCard]:
    """Yields the agents that a message can be routed to and that the reader may know of."""
    names = eligible(tree, roles={role for card in tree for role in card.roles}).names
    return (tree.card(name) for name in names if view.reaches(name))


def _skill(card: ours.AgentCard) -> AgentSkill:
    """Returns one agent as a skill of the gateway's card."""
    return AgentSkill(
        id=card.name,
        name=card.name,
        description=_short(card.description or card.name),
        tags=card.tags or (card.kind,),
        examples=list(islice(_examples(card), MOST_EXAMPLES)),
    )


def _examples(card: ours.AgentCard) -> Iterator[str]:
    examples: Sequence[str] = (*card.examples, *(example for skill in card.skills for example in skill.examples))
    return (example for example in examples if len(example) <= EXAMPLE_CHARACTERS)


def _schemes(auth: AuthConfig | None) -> Iterator[tuple[str, SecurityScheme]]:
    """Yields the accepted authentication schemes; either one suffices."""
    if auth is None:
        return
    if auth.keys:
        yield "apiKey", SecurityScheme(api_key_security_scheme=APIKeySecurityScheme(location="header", name="X-API-Key"))
    token = HTTPAuthSecurityScheme(scheme="Bearer", bearer_format="" if auth.jwt is None else "JWT")
    yield "bearer", SecurityScheme(http_auth_security_scheme=token)


def _short(text: str) -> str:
    return text if len(text) <= DESCRIPTION_CHARACTERS else text[: DESCRIPTION_CHARACTERS - 1].rstrip() + "…"
