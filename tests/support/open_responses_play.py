"""What Open Responses demands of a response and of its events, written from its specification (schema/*.tsp of
https://github.com/openresponses/openresponses). More fields than these may be there.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, TypeAdapter

Status = Literal["in_progress", "completed", "incomplete"]


class Strict(BaseModel):
    """No number is written as a string, and no null stands where a value is demanded."""

    model_config = ConfigDict(strict=True)


class Text(Strict):
    type: Literal["output_text"]
    text: str
    annotations: list[Any]
    logprobs: list[Any] = []


class Message(Strict):
    type: Literal["message"]
    id: str
    status: Status
    role: Literal["user", "assistant", "system", "developer"]
    content: list[Text]
    phase: Literal["commentary", "final_answer"] = "final_answer"


class FunctionCall(Strict):
    type: Literal["function_call"]
    id: str
    call_id: str
    name: str
    arguments: str
    status: Status


class Compacted(Strict):
    type: Literal["compaction"]
    id: str
    encrypted_content: str


Item = Annotated[Message | FunctionCall | Compacted, Discriminator("type")]


class FunctionTool(Strict):
    type: Literal["function"]
    name: str
    description: str | None
    parameters: dict[str, Any] | None
    strict: bool | None


class Chosen(Strict):
    type: Literal["function"]
    name: str


class CachedTokens(Strict):
    cached_tokens: int


class ReasoningTokens(Strict):
    reasoning_tokens: int


class Usage(Strict):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: CachedTokens
    output_tokens_details: ReasoningTokens


class IncompleteDetails(Strict):
    reason: str


class Error(Strict):
    code: str
    message: str


Time = Annotated[int, Field(strict=False)]
"""OpenAI's client reads times as floats."""


class Response(Strict):
    """ResponseResource. All of it is demanded."""

    id: str
    object: Literal["response"]
    created_at: Time
    completed_at: Time | None
    status: str
    incomplete_details: IncompleteDetails | None
    model: str
    previous_response_id: str | None
    instructions: str | None
    output: list[Item]
    error: Error | None
    tools: list[FunctionTool]
    tool_choice: Literal["none", "auto", "required"] | Chosen | dict[str, Any]
    truncation: Literal["auto", "disabled"]
    parallel_tool_calls: bool
    text: dict[str, Any]
    top_p: float
    presence_penalty: float
    frequency_penalty: float
    top_logprobs: int
    temperature: float
    reasoning: dict[str, Any] | None
    usage: Usage | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    store: bool
    background: bool
    service_tier: str
    metadata: dict[str, str]
    safety_identifier: str | None
    prompt_cache_key: str | None


class Compaction(Strict):
    """CompactResource."""

    id: str
    object: Literal["response.compaction"]
    output: list[Item]
    created_at: int
    usage: Usage


class Told(Strict):
    sequence_number: int


class Whole(Told):
    type: Literal[
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.completed",
        "response.failed",
        "response.incomplete",
    ]
    response: Response


class OfItem(Told):
    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: int
    item: Item


class Placed(Told):
    item_id: str
    output_index: int


class OfPart(Placed):
    type: Literal["response.content_part.added", "response.content_part.done"]
    content_index: int
    part: Text


class TextDelta(Placed):
    type: Literal["response.output_text.delta"]
    content_index: int
    delta: str
    logprobs: list[Any] = []


class TextDone(Placed):
    type: Literal["response.output_text.done"]
    content_index: int
    text: str


class ArgumentsDelta(Placed):
    type: Literal["response.function_call_arguments.delta"]
    delta: str


class ArgumentsDone(Placed):
    type: Literal["response.function_call_arguments.done"]
    arguments: str


class SocketProblem(Strict):
    code: str | None
    message: str
    param: str | None = None


class SocketError(Strict):
    type: Literal["error"]
    status: int
    error: SocketProblem


Event = Annotated[
    Whole | OfItem | OfPart | TextDelta | TextDone | ArgumentsDelta | ArgumentsDone | SocketError, Discriminator("type")
]
_EVENT: TypeAdapter[Any] = TypeAdapter(Event)
_OBJECTS: dict[str, type[BaseModel]] = {"response": Response, "response.compaction": Compaction}


def check_object(given: dict[str, Any]) -> None:
    """Raises when a response or a compaction is not as the specification has it; anything else is let through."""
    shape = _OBJECTS.get(given.get("object", ""))
    if shape is not None and "deleted" not in given:
        shape.model_validate(given)


def check_event(given: dict[str, Any]) -> None:
    """Raises when an event is not as the specification has it. An error in a stream over HTTP has OpenAI's form: `code`,
    `message` and `param` beside `type`.
    """
    if given["type"] == "error" and "error" not in given:
        SocketProblem.model_validate(given)
    else:
        _EVENT.validate_python(given)
