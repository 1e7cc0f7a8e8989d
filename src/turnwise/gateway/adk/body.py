"""What requests may say, in camelCase or snake_case; what nobody here knows is ignored, as the ADK does."""

from typing import Annotated

from pydantic import Field, JsonValue

from turnwise.gateway.adk.shape import Content, Part, Wire

State = dict[str, JsonValue]
MOST_PARTS, MOST_EVENTS = 10_000, 10_000


class Said(Content):
    """What somebody says."""

    parts: Annotated[list[Part], Field(max_length=MOST_PARTS)] | None = None


class RunBody(Wire):
    """The body of `POST /run` and `/run_sse`.

    app_name: ours, if it is left out. new_message: None = the invocation is read on. state_delta: is written with the
    message. invocation_id: which one the message goes on with. custom_metadata: what selectors and agents may know beside the
    message. function_call_event_id: what is answered, which the ids in the message say, too.
    """

    app_name: str | None = None
    user_id: str
    session_id: str
    new_message: Said | None = None
    streaming: bool = False
    state_delta: State | None = None
    function_call_event_id: str | None = None
    invocation_id: str | None = None
    custom_metadata: State | None = None


class PastEvent(Wire):
    """An event of a conversation that was had elsewhere."""

    author: str = ""
    content: Said | None = None
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
