"""What ADK's sessions, events and artifacts look like on the wire: camelCase, and nothing where there is nothing."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel
from pydantic_core import to_json
from starlette.responses import Response


class Wire(BaseModel):
    """Written in camelCase; read in that, and in snake_case."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Blob(Wire):
    """data: in base64."""

    data: str
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
    """One of these; `thought` goes with a text."""

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
    """partial: the content is the next piece of what the event with this id will say. custom_metadata: `turnwise`, who was
    selected, and why.
    """

    model_version: str | None = None
    content: Content | None = None
    partial: bool | None = None
    finish_reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    interrupted: bool | None = None
    custom_metadata: dict[str, JsonValue] | None = None
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
    """The value, or these values, as they are written."""
    return to_json(value, by_alias=True, exclude_none=True, inf_nan_mode="null")


def answered(value: Any) -> Response:
    """The answer that holds it."""
    return Response(json_of(value), media_type="application/json")
