"""What a language model is: a request in, pieces of the answer as they come, then the whole."""

from collections.abc import AsyncIterator, Mapping
from typing import Literal, NamedTuple, Protocol

from pydantic import JsonValue

from turnwise.facts.content import Content
from turnwise.facts.usage import Usage
from turnwise.ports.tool import ToolSpec

ToolChoice = Literal["auto", "required", "none"]
LENGTH = "length"
"""Why an answer stopped that ran into its limit of tokens."""


class ModelRequest(NamedTuple):
    """All that a model is to know.

    instructions: what it is told about its part; may be empty. messages: the conversation as `transcript` compiles it: user
    and agent in turn, beginning and ending with the user, the results of tool calls first in the content right after the
    calls. tools: what it may call; `choice` says whether it must. settings: passed on to the provider by its usual names
    (`temperature`, `max_tokens`, `timeout` in seconds, …).
    """

    messages: tuple[Content, ...]
    instructions: str = ""
    tools: tuple[ToolSpec, ...] = ()
    choice: ToolChoice = "auto"
    settings: Mapping[str, JsonValue] = {}


class ModelPiece(NamedTuple):
    """The next piece of an answer. `call` is the place of the tool call, from 0, whose arguments it goes on; `tool` is
    that tool's name."""

    kind: Literal["text", "thinking", "arguments"]
    text: str
    call: int = 0
    tool: str = ""


class ModelReply(NamedTuple):
    """A whole answer. Its tool calls carry the provider's ids, which may repeat from one answer to the next.

    finish: why it stopped, in the provider's words; LENGTH when it ran into its limit of tokens: then the answer is not
    whole, and a tool call that stands last in it may have lost arguments.
    """

    content: Content
    usage: Usage = Usage()
    finish: str = ""


class Model(Protocol):
    """Holds no conversation: equal requests are equal to it. Safe to share between tasks of one event loop and between
    event loops."""

    @property
    def name(self) -> str:
        """`provider:model`, for records and messages."""
        ...

    def answer(self, request: ModelRequest, *, stream: bool) -> AsyncIterator[ModelPiece | ModelReply]:
        """Pieces as they come if `stream`, then, last, the whole reply; one call of the provider, nothing is tried again.

        Whoever stops reading ends the call. ModelUnavailable, ModelRefused, ModelAnswerInvalid.
        """
        ...
