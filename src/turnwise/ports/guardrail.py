"""The protocol of a guardrail, which may block or change a message, a tool call or an answer."""

from collections.abc import Awaitable
from typing import Literal, NamedTuple, Protocol

from turnwise.facts.content import Content

Place = Literal["message", "tool_call", "answer", "memory"]


class GuardrailVerdict(NamedTuple):
    """The verdict of a guardrail: allow, rewrite or block."""

    action: Literal["allow", "rewrite", "block"] = "allow"
    content: Content | None = None
    """For a rewrite, the new content."""
    reason: str = ""
    """Never holds the removed content. The user, or the model that made the tool call, reads the reason of a block. The
    reason of a rewrite is recorded.
    """


ALLOW = GuardrailVerdict()


class Guardrail(Protocol):
    """Checks every message before it is stored, every tool call before it is made, and every answer before it is delivered.

    Applies to all kinds of agents.
    """

    @property
    def name(self) -> str: ...

    @property
    def reach(self) -> int | None:
        """The maximum number of characters needed to recognise a finding; None when it must see the whole answer.

        The runner holds back about this many characters of a streamed answer; with None, all of it. Invisible characters do not
        count.
        """
        ...

    def check(self, place: Place, content: Content, agent: str | None) -> Awaitable[GuardrailVerdict] | GuardrailVerdict:
        """Checks a content. A coroutine function runs on the event loop and must not block it; a sync function runs in a
        thread.

        A guardrail that does not apply to a place allows. One that raises, or returns an invalid verdict, blocks. A guardrail
        that rewrites a call into a different call, or adds one, blocks it, too.

        Args:
            place: The kind of content. For `tool_call`, the content is one tool call; for `memory`, the text of an entry that
                is remembered or recalled.
            content: The content to check.
            agent: The author of the answer or the tool call; None for a message.
        """
        ...
