"""The request and response models, with all fields of OpenAI's API, and the check for unsupported parameters.

Agents have their own models and settings. Parameters that only tune a model are accepted and returned, without
effect: temperature, top_p, reasoning, caching, tiers, context size. Parameters that would change the answer's format
or control tool calls are rejected by name.

Fields of a response without a value here are null. Those that Open Responses (https://www.openresponses.org) does not allow to
be null have their default value.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from turnwise.facts.errors import RequestInvalid
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

RETURNED_UNCHANGED = (
    "frequency_penalty",
    "max_output_tokens",
    "max_tool_calls",
    "parallel_tool_calls",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "temperature",
    "text",
    "tool_choice",
    "top_p",
    "truncation",
    "user",
)
"""Parameters that the response returns unchanged."""

_KNOWN_INCLUDES = frozenset(
    {
        "file_search_call.results",
        "web_search_call.results",
        "web_search_call.action.sources",
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
        "code_interpreter_call.outputs",
        "reasoning.encrypted_content",
    }
)
_REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "access_programs": "OpenAI's access programs mean nothing here.",
        "moderation": "Guardrails are the app's own.",
        "prompt": "There are no stored prompts.",
    }
)


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ConversationName(Part):
    id: str


class ResponseStreamOptions(Part):
    include_obfuscation: bool | None = None


class BackgroundOptions(Part):
    completion_window: Literal["soonest", "2h", "8h"] | None = None
    continuation_id: str | None = None


class ResponseTool(BaseModel):
    """A tool that the caller offers. Only functions are supported."""

    model_config = ConfigDict(extra="allow")
    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, JsonValue] | None = None
    strict: bool | None = None


def _items(given: Any) -> Any:
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _id(given: Any) -> Any:
    return given.get("id", "") if isinstance(given, dict) else given


GivenItem = dict[str, JsonValue]
Input = Annotated[
    list[GivenItem], Field(max_length=MOST_MESSAGES), BeforeValidator(_items, json_schema_input_type=str | list[GivenItem])
]


class Thread(Part):
    """A request that continues from a response."""

    model: str | None = None
    input: Input | None = None
    instructions: str | None = None
    previous_response_id: str | None = None


class ThreadOrConversation(Thread):
    """A request that continues from a response or at the end of a conversation."""

    conversation: Annotated[str, BeforeValidator(_id, json_schema_input_type=str | ConversationName)] | None = None


class Create(ThreadOrConversation):
    """The body of `POST /v1/responses`, with all fields of OpenAI's API."""

    metadata: Annotated[Metadata, Field(max_length=16)] | None = None
    stream: bool | None = None
    stream_options: ResponseStreamOptions | None = None
    background: bool | None = None
    background_options: BackgroundOptions | None = None
    store: bool | None = None
    tools: list[ResponseTool] | None = None
    tool_choice: JsonValue = None
    parallel_tool_calls: bool | None = None
    text: dict[str, JsonValue] | None = None
    include: list[str] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    context_management: list[dict[str, JsonValue]] | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    max_output_tokens: int | None = Field(default=None, ge=1)
    max_tool_calls: int | None = Field(default=None, ge=1)
    reasoning: dict[str, JsonValue] | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, JsonValue] | None = None
    prompt_cache_retention: str | None = None
    image: dict[str, JsonValue] | None = None
    user: str | None = None
    access_programs: JsonValue = None
    moderation: JsonValue = None
    prompt: JsonValue = None

    @property
    def unstored(self) -> bool:
        """Whether the response is not stored."""
        return self.store is False

    @property
    def repeated(self) -> dict[str, JsonValue]:
        """The parameters that the response returns unchanged, without those that the request omits."""
        said = self.model_dump(mode="json", include=set(RETURNED_UNCHANGED), exclude_none=True)
        return dict(said)

    @property
    def offered(self) -> tuple[OfferedTool, ...]:
        """The caller's tools; empty if `tool_choice` is `none`."""
        tools = () if self.tool_choice == "none" else self.tools or ()
        return tuple(offered_tool(each.name, each.description, each.parameters) for each in tools)


def read_create(given: Any) -> Create:
    """Returns the body parsed from JSON.

    Raises:
        RequestInvalid: The body is malformed or uses unsupported parameters.
    """
    try:
        body = Create.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ("body", *first["loc"])
        place = ".".join(map(str, first["loc"])) or "body"
        raise RequestInvalid(f"{place[:200]}: {first['msg']}.", where=where) from None
    check_supported(body)
    return body


def check_supported(body: Create) -> None:
    """Raises RequestInvalid, which names the parameter, for an unsupported request."""
    for name, why in _REFUSED.items():
        if getattr(body, name) is not None:
            raise invalid_parameter(name, f"'{name}' is not supported: {why}")
    if body.previous_response_id is not None and body.conversation is not None:
        problem = "'previous_response_id' and 'conversation' cannot both be given."
        raise invalid_parameter("previous_response_id", problem, fix="Send one of them.")
    if body.unstored and (body.background or body.conversation is not None):
        named = "background" if body.background else "conversation"
        raise invalid_parameter("store", f"{named!r} needs a response that is stored.", fix="Leave 'store' out, or send true.")
    for place, value in enumerate(body.include or ()):
        if value not in _KNOWN_INCLUDES:
            raise invalid_parameter(
                ("include", place), f"{value[:64]!r} cannot be included.", fix=f"Known: {_listed(_KNOWN_INCLUDES)}."
            )
    if body.top_logprobs:
        raise log_probabilities_error("top_logprobs")
    check_response_format((body.text or {}).get("format"), ("text", "format"))
    for place, tool in enumerate(body.tools or ()):
        if tool.type != "function":
            raise unsupported_tool_error(("tools", place, "type"), tool.type)
    check_choice(tools=bool(body.tools), choice=body.tool_choice, parallel=body.parallel_tool_calls)


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


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
