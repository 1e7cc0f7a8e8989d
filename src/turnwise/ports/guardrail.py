"""What may stop or change a message or an answer."""

from typing import Literal, NamedTuple, Protocol

from turnwise.facts.content import Content

Place = Literal["message", "answer"]


class GuardrailVerdict(NamedTuple):
    """allow, rewrite (then `content` is what takes its place), or block (then `reason` is told to the user)."""

    action: Literal["allow", "rewrite", "block"] = "allow"
    content: Content | None = None
    reason: str = ""


ALLOW = GuardrailVerdict()


class Guardrail(Protocol):
    """Looks at every message before it is stored and every answer before it is delivered, whatever the kind of agent."""

    @property
    def name(self) -> str: ...

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        """`agent` is the answer's author; None for a message."""
        ...
