"""The protocol of a language model: a request in, the pieces of the answer as they arrive, then the whole answer."""

from collections.abc import AsyncIterator, Mapping
from typing import Literal, NamedTuple, Protocol

from pydantic import JsonValue

from turnwise.facts.content import Content
from turnwise.facts.usage import Usage
from turnwise.ports.tool import ToolSpec

ToolChoice = Literal["auto", "required", "none"]
LENGTH = "length"
"""The finish reason of an answer that reached its token limit."""


class ModelRequest(NamedTuple):
    """The input of a model call."""

    messages: tuple[Content, ...]
    """The conversation as compiled by `transcript`. User and agent alternate; the first and last message are the user's. The
    results of tool calls come first in the message right after the calls.
    """
    instructions: str = ""
    """The system prompt; may be empty."""
    tools: tuple[ToolSpec, ...] = ()
    """The tools that the model may call."""
    choice: ToolChoice = "auto"
    """`required` means that the model must call a tool."""
    settings: Mapping[str, JsonValue] = {}
    """Settings passed to the provider under its usual names (`temperature`, `max_tokens`, `timeout` in seconds, …)."""


class ModelPiece(NamedTuple):
    """The next piece of an answer."""

    kind: Literal["text", "thinking", "arguments"]
    text: str
    call: int = 0
    """The index of the tool call, from 0, to which a piece of arguments belongs."""
    tool: str = ""
    """The name of that tool."""


class ModelReply(NamedTuple):
    """A complete answer. Its tool calls carry the provider's ids, which may repeat in later answers."""

    content: Content
    usage: Usage = Usage()
    finish: str = ""
    """The provider's finish reason; LENGTH when the answer reached its token limit. The answer is then incomplete, and a
    tool call at its end may lack arguments.
    """


class Model(Protocol):
    """A language model. It keeps no conversation, and may be shared between tasks and event loops."""

    @property
    def name(self) -> str:
        """`provider:model`, for records and messages."""
        ...

    def answer(self, request: ModelRequest, *, stream: bool) -> AsyncIterator[ModelPiece | ModelReply]:
        """Makes one call to the provider, without retries. A reader that stops reading ends the call.

        Yields:
            With `stream`, the pieces as they arrive. Then, last, the whole reply.

        Raises:
            ModelUnavailable: The provider is unreachable or overloaded.
            ModelRefused: The provider rejected the request.
            ModelAnswerInvalid: The answer is malformed.
        """
        ...
