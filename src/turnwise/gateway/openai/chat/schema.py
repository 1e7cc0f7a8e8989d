"""Request and response models of chat completions, and the check for unsupported parameters.

Agents have their own models and settings. Parameters that only tune a model are accepted and ignored, as are unknown
ones: temperature, top_p, penalties, seed, logit_bias, max_tokens, reasoning, verbosity, caching, tiers. Parameters
that would change the answer's format or control tool calls are rejected by name.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, JsonValue

from turnwise.facts.messages import OfferedTool
from turnwise.gateway.openai.errors import (
    Metadata,
    check_choice,
    check_response_format,
    invalid_parameter,
    log_probabilities_error,
    unsupported_tool_error,
)
from turnwise.gateway.shared.content import offered_tool
from turnwise.gateway.shared.exchanges import MOST_MESSAGES
from turnwise.gateway.shared.stream import DecisionInfo

_REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "audio": "Agents answer in text.",
        "function_call": "It is called 'tool_choice' now.",
        "functions": "They are called 'tools' now.",
        "moderation": "Guardrails are the app's own.",
        "stop": "Agents end their answers themselves.",
        "web_search_options": "Agents have tools of their own.",
    }
)


class ImageUrl(BaseModel):
    url: str


class Audio(BaseModel):
    data: str
    format: str


class File(BaseModel):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class ContentPart(BaseModel):
    """A part of a message. `type` is `text`, `refusal`, `image_url`, `input_audio` or `file`; the field of that name has
    the content.
    """

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: ImageUrl | None = None
    input_audio: Audio | None = None
    file: File | None = None


class CalledFunction(BaseModel):
    name: str
    arguments: str = ""


class ToolCall(BaseModel):
    """A tool call in an assistant message."""

    id: str
    type: str = "function"
    function: CalledFunction | None = None


def _as_parts(content: Any) -> Any:
    if content is None:
        return []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


Parts = Annotated[list[ContentPart], BeforeValidator(_as_parts, json_schema_input_type=str | list[ContentPart] | None)]


class ChatMessage(BaseModel):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Parts = []
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None


class ChatStreamOptions(BaseModel):
    include_usage: bool | None = None


class FunctionDefinition(BaseModel):
    name: str
    description: str | None = None
    parameters: dict[str, JsonValue] | None = None


class ChatTool(BaseModel):
    """A tool that the caller offers. Only functions are supported."""

    type: str
    function: FunctionDefinition | None = None


class ChatBody(BaseModel):
    """The body of `POST /v1/chat/completions`. Other fields of OpenAI's API are ignored."""

    model: str = Field(examples=["turnwise"])
    messages: list[ChatMessage] = Field(min_length=1, max_length=MOST_MESSAGES)
    stream: bool | None = None
    stream_options: ChatStreamOptions | None = None
    n: int | None = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: Annotated[Metadata, Field(max_length=16)] | None = None
    tools: list[ChatTool] | None = None
    tool_choice: JsonValue = None
    parallel_tool_calls: bool | None = None
    response_format: JsonValue = None
    modalities: list[str] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    stop: JsonValue = None
    audio: JsonValue = None
    functions: JsonValue = None
    function_call: JsonValue = None
    moderation: JsonValue = None
    web_search_options: JsonValue = None

    @property
    def named_user(self) -> str | None:
        """The user that the request names; None if it does not."""
        return self.user or self.safety_identifier

    @property
    def offered(self) -> tuple[OfferedTool, ...]:
        """The caller's tools; empty if `tool_choice` is `none`."""
        functions = [] if self.tool_choice == "none" else [tool.function for tool in self.tools or () if tool.function]
        return tuple(offered_tool(each.name, each.description, each.parameters) for each in functions)


def check_supported(body: ChatBody) -> None:
    """Raises RequestInvalid, which names the parameter, for an unsupported request."""
    for name, why in _REFUSED.items():
        if getattr(body, name):
            raise invalid_parameter(name, f"'{name}' is not supported. {why}")
    if body.n not in (None, 1):
        raise invalid_parameter(
            "n", f"{body.n} answers are requested; only one is supported.", fix="Send n = 1, or leave it out."
        )
    if body.logprobs or body.top_logprobs:
        raise log_probabilities_error("logprobs" if body.logprobs else "top_logprobs")
    if any(each != "text" for each in body.modalities or ()):
        raise invalid_parameter("modalities", "Agents answer in text.")
    check_response_format(body.response_format, ("response_format",))
    for place, tool in enumerate(body.tools or ()):
        if tool.type == "function" and tool.function is None:
            raise invalid_parameter(("tools", place, "function"), "The tool has no function.", fix="Send at least its name.")
        if tool.type != "function":
            raise unsupported_tool_error(("tools", place, "type"), tool.type)
    check_choice(tools=bool(body.tools), choice=body.tool_choice, parallel=body.parallel_tool_calls)


Finish = Literal["stop", "length", "tool_calls", "content_filter"]


class Function(BaseModel):
    name: str
    arguments: str


class Call(BaseModel):
    """A tool call whose result the caller has to send."""

    id: str
    type: Literal["function"] = "function"
    function: Function


class AssistantMessage(BaseModel):
    """The answer's message."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    annotations: list[JsonValue] = []
    audio: None = None
    function_call: None = None
    tool_calls: list[Call] | None = None


class Choice(BaseModel):
    index: Literal[0] = 0
    message: AssistantMessage
    logprobs: None = None
    finish_reason: Finish


class PromptTokens(BaseModel):
    audio_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: None = None
    image_tokens: None = None
    text_tokens: None = None


class CompletionTokens(BaseModel):
    accepted_prediction_tokens: int = 0
    audio_tokens: int = 0
    reasoning_tokens: int = 0
    rejected_prediction_tokens: int = 0
    text_tokens: None = None


class ChatUsage(BaseModel):
    """The token usage of the agents' models, as far as they report it; zeros if no model was called."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: PromptTokens = PromptTokens()
    completion_tokens_details: CompletionTokens = CompletionTokens()


class Head(BaseModel):
    """Fields that completions and chunks share."""

    id: str
    created: int
    model: str
    service_tier: None = None
    system_fingerprint: str | None = None


class ChatCompletion(Head):
    """A chat completion. `system_fingerprint` is the fingerprint of the selection policy."""

    object: Literal["chat.completion"] = "chat.completion"
    choices: list[Choice]
    usage: ChatUsage
    metadata: dict[str, str] | None = None
    moderation: None = None
    turnwise: DecisionInfo


class ChunkChoice(BaseModel):
    """A choice in a chunk. `delta` holds only the fields that change."""

    index: Literal[0] = 0
    delta: dict[str, Any]
    logprobs: None = None
    finish_reason: Finish | None = None


class Chunk(Head):
    """A chunk of a streamed completion. The chunk with `finish_reason` has `turnwise`."""

    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    choices: list[ChunkChoice]
    moderation: None = None
    obfuscation: None = None
    turnwise: DecisionInfo | None = None
    usage: ChatUsage | None = None
