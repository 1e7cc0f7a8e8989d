"""The wire models of the ADK's sessions, events and artifacts: camelCase names, absent instead of null."""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel
from pydantic_core import to_json
from starlette.responses import Response

from turnwise.gateway.problems import Problem

State = dict[str, JsonValue]
MOST_PARTS, MOST_EVENTS = 10_000, 10_000


class Wire(BaseModel):
    """Base model: writes camelCase, accepts camelCase and snake_case."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Blob(Wire):
    """Inline bytes."""

    data: str
    """Base64."""
    mime_type: str | None = None
    display_name: str | None = None


class FileData(Wire):
    file_uri: str
    mime_type: str | None = None
    display_name: str | None = None


class FunctionCall(Wire):
    id: str | None = None
    name: str
    args: dict[str, JsonValue] = {}


class FunctionResponse(Wire):
    id: str | None = None
    name: str | None = None
    response: dict[str, JsonValue] | None = None


class Part(Wire):
    """Exactly one kind of content; `thought` marks a text."""

    text: str | None = None
    thought: bool | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None


class Content(Wire):
    parts: list[Part] | None = None
    role: str | None = None


class Confirmation(Wire):
    hint: str
    confirmed: bool = False


class Actions(Wire):
    state_delta: dict[str, JsonValue] = {}
    artifact_delta: dict[str, int] = {}
    transfer_to_agent: str | None = None
    escalate: bool | None = None
    requested_auth_configs: dict[str, JsonValue] = {}
    requested_tool_confirmations: dict[str, Confirmation] = {}
    end_of_agent: bool | None = None


class UsageMetadata(Wire):
    prompt_token_count: int
    cached_content_token_count: int | None = None
    candidates_token_count: int
    total_token_count: int


class NodeInfo(Wire):
    path: str = ""


class Event(Wire):
    """An event of a session."""

    model_version: str | None = None
    content: Content | None = None
    partial: bool | None = None
    """The content is the next chunk of the event with this id."""
    finish_reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    interrupted: bool | None = None
    custom_metadata: dict[str, JsonValue] | None = None
    """`turnwise` holds the selected agent and the reason."""
    usage_metadata: UsageMetadata | None = None
    invocation_id: str
    author: str
    actions: Actions = Actions()
    long_running_tool_ids: list[str] | None = None
    branch: str | None = None
    node_info: NodeInfo = NodeInfo()
    id: str
    timestamp: float


class Session(Wire):
    id: str
    app_name: str
    user_id: str
    state: dict[str, JsonValue]
    events: list[Event]
    last_update_time: float


class ArtifactVersion(Wire):
    version: int
    canonical_uri: str
    custom_metadata: dict[str, JsonValue] = Field(default={})
    mime_type: str | None = None


def json_of(value: Any) -> bytes:
    """Serializes a model, or a list of models."""
    return to_json(value, by_alias=True, exclude_none=True, inf_nan_mode="null")


def json_response(value: Any) -> Response:
    """Returns the value as a JSON response."""
    return Response(json_of(value), media_type="application/json")


class MessageContent(Content):
    """The content of a message."""

    parts: Annotated[list[Part], Field(max_length=MOST_PARTS)] | None = None


class RunBody(Wire):
    """The body of `POST /run` and `/run_sse`."""

    app_name: str | None = None
    """None = this gateway's app."""
    user_id: str
    session_id: str
    new_message: MessageContent | None = None
    """None = attach to the invocation instead."""
    streaming: bool = False
    state_delta: State | None = None
    """State changes, written together with the message."""
    function_call_event_id: str | None = None
    """Ignored: the parts of the message name the calls that they answer."""
    invocation_id: str | None = None
    """The waiting invocation that the message continues."""
    custom_metadata: State | None = None
    """Attributes for selectors and agents."""


class PastEvent(Wire):
    """An event of an imported conversation."""

    author: str = ""
    content: MessageContent | None = None
    partial: bool | None = None
    actions: State | None = None
    long_running_tool_ids: list[str] | None = None


class CreateBody(Wire):
    session_id: str | None = None
    state: State | None = None
    events: Annotated[list[PastEvent], Field(max_length=MOST_EVENTS)] | None = None
    options: State | None = None


class PatchBody(Wire):
    state_delta: State


class SaveBody(Wire):
    filename: str
    artifact: Part
    custom_metadata: State | None = None


class MemoryBody(Wire):
    session_id: str


def error_response(problem: Problem) -> Response:
    """Returns the error response. A problem with a field is a list, as FastAPI clients expect."""
    message = f"{problem.problem} {problem.fix}".rstrip()
    errors = [{"type": problem.code, "loc": list(problem.where), "msg": message}]
    detail = errors if problem.status == 422 and problem.where else message
    body = {"detail": detail, "code": problem.code}
    # ASCII, because a quoted request may hold unpaired surrogates.
    return Response(json.dumps(body), problem.status, dict(problem.headers), media_type="application/json")


def stream_error(code: str, message: str, at: float) -> bytes:
    """Returns an error as a stream item. at: the current time in seconds."""
    details = {"error_type": code, "error_message": message, "timestamp": at}
    return json.dumps({"error": f"{code}: {message}", "error_details": details}).encode()
