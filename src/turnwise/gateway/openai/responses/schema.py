"""The response models, with all fields of OpenAI's API. Fields without a value here are null.

Fields that Open Responses (https://www.openresponses.org) does not allow to be null have their default value.
"""

from typing import Any, Literal

from pydantic import BaseModel, JsonValue

from turnwise.gateway.shared.stream import DecisionInfo

Status = Literal["completed", "failed", "in_progress", "cancelled", "queued", "incomplete"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class OutputText(BaseModel):
    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[JsonValue] = []
    logprobs: list[JsonValue] = []


class MessageItem(BaseModel):
    """A text of an agent, which `agent` names."""

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
    """A tool call whose result the caller has to send. `agent` names the agent that made it."""

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
    """The token usage of the agents' models, as far as they report it."""

    input_tokens: int = 0
    input_tokens_details: InputTokens = InputTokens()
    output_tokens: int = 0
    output_tokens_details: OutputTokens = OutputTokens()
    total_tokens: int = 0


class Conversation(BaseModel):
    id: str


class Incomplete(BaseModel):
    """Why a response is incomplete: `max_output_tokens`, `content_filter`, `max_messages`, or a limit such as
    `max_invocation_seconds`.
    """

    reason: str


class Failure(BaseModel):
    code: Literal["server_error"] = "server_error"
    message: str


class ResponseObject(BaseModel):
    """A response: the answer to one message."""

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
    turnwise: DecisionInfo
