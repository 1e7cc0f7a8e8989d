"""What may stop or change a message, a tool call or an answer."""

from collections.abc import Awaitable
from typing import Literal, NamedTuple, Protocol

from turnwise.facts.content import Content

Place = Literal["message", "tool_call", "answer"]


class GuardrailVerdict(NamedTuple):
    """allow, rewrite (then `content` is what takes its place), or block.

    reason: of a block, it is told to the user, or to the model whose tool call it was; of a rewrite, it is put on record. It
    never holds what was taken out.
    """

    action: Literal["allow", "rewrite", "block"] = "allow"
    content: Content | None = None
    reason: str = ""


ALLOW = GuardrailVerdict()


class Guardrail(Protocol):
    """Looks at every message before it is stored, every tool call before it is made, and every answer before it is
    delivered, whatever the kind of agent.
    """

    @property
    def name(self) -> str: ...

    @property
    def reach(self) -> int | None:
        """How many characters, at most, it takes to recognise what it looks for; None when it must see a whole answer.

        While an answer is streamed, about that many characters are held back; with None, all of it is. Characters that
        nobody sees do not count.
        """
        ...

    def check(self, place: Place, content: Content, agent: str | None) -> Awaitable[GuardrailVerdict] | GuardrailVerdict:
        """A coroutine function runs on the event loop, and must not hold it. A plain function runs in one of a few threads.

        `agent` is the author of the answer or the tool call; None for a message.

        With place `tool_call`, the content is one tool call. A guardrail that has nothing to say about a place allows. One
        that raises, or says what is no verdict, has blocked; so has one that rewrites a call into another, or adds one.
        """
        ...
