"""What a response looks like on the wire: every field of OpenAI's, null where we have nothing to say.

What Open Responses (https://www.openresponses.org) does not allow to be null has its usual value.
"""

from typing import Any, Literal

from pydantic import BaseModel, JsonValue

from turnwise.gateway.shared.utterances import Behind

Status = Literal["completed", "failed", "in_progress", "cancelled", "queued", "incomplete"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class OutputText(BaseModel):
    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[JsonValue] = []
    logprobs: list[JsonValue] = []


class MessageItem(BaseModel):
    """What an agent said. `agent` is its name."""

    id: str
    type: Literal["message"] = "message"
    status: ItemStatus = "completed"
    role: Literal["assistant"] = "assistant"
    content: list[OutputText]
    agent: str

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content)


class CallItem(BaseModel):
    """A call whose result is awaited from the caller. `agent` is who made it."""

    id: str
    type: Literal["function_call"] = "function_call"
    status: ItemStatus = "completed"
    call_id: str
    name: str
    arguments: str
    agent: str


Item = MessageItem | CallItem


class InputTokens(BaseModel):
    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokens(BaseModel):
    reasoning_tokens: int = 0


class Tokens(BaseModel):
    """What the models of the agents took, as far as they said."""

    input_tokens: int = 0
    input_tokens_details: InputTokens = InputTokens()
    output_tokens: int = 0
    output_tokens_details: OutputTokens = OutputTokens()
    total_tokens: int = 0


class Conversation(BaseModel):
    id: str


class Incomplete(BaseModel):
    reason: str
    """`max_output_tokens`, `content_filter`, `max_messages`, or the limit that ended it, as `max_invocation_seconds`."""


class Failure(BaseModel):
    code: Literal["server_error"] = "server_error"
    message: str


class ResponseObject(BaseModel):
    """What became of one message."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Status = "in_progress"
    background: bool = False
    completed_at: int | None = None
    error: Failure | None = None
    incomplete_details: Incomplete | None = None
    instructions: str | None = None
    conversation: Conversation | None = None
    previous_response_id: str | None = None
    metadata: dict[str, str] = {}
    model: str
    output: list[MessageItem | CallItem] = []
    parallel_tool_calls: bool = True
    tool_choice: JsonValue = "auto"
    tools: list[dict[str, Any]] = []
    text: dict[str, Any] = {"format": {"type": "text"}}
    truncation: str = "auto"
    store: bool = True
    """Whether it can be retrieved later."""
    usage: Tokens | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    top_logprobs: int = 0
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    reasoning: dict[str, Any] | None = None
    safety_identifier: str | None = None
    service_tier: str = "default"
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    user: str | None = None
    access_programs: None = None
    image: None = None
    input_transformations: None = None
    moderation: None = None
    prompt: None = None
    prompt_cache_diagnostics: None = None
    prompt_cache_options: None = None
    tool_usage: None = None
    turnwise: Behind
