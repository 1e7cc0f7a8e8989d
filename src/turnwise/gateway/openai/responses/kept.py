"""What of a request is kept with its message, so that the response can be made again from the log alone. Pure."""

from datetime import datetime
from typing import Any

from pydantic import JsonValue, ValidationError

from turnwise.facts.content import DataPart
from turnwise.facts.messages import Message, MessageContext, OfferedTool
from turnwise.gateway.openai.models import FRONT_DOOR
from turnwise.gateway.openai.refusing import refused
from turnwise.gateway.openai.responses.body import REPEATED, Create
from turnwise.gateway.openai.responses.names import Name, asked_at
from turnwise.gateway.openai.responses.settled import seconds
from turnwise.gateway.openai.responses.shape import Conversation, ResponseObject
from turnwise.gateway.speech.exchanges import INSTRUCTIONS
from turnwise.gateway.speech.record import Behind

KEPT = "openai.response"
"""Among the message's attributes, where agents find the request's metadata, the one that is not theirs."""
_OURS = ("model", "previous_response_id", "background")


def context_of(body: Create) -> MessageContext:
    """What the message comes with: the caller's tools, and the metadata as attributes; of it, `channel` and `user_kind` pick a
    policy's segment. RequestInvalid.
    """
    metadata = body.metadata or {}
    if KEPT in metadata:
        raise refused(("metadata", KEPT), f"The key {KEPT!r} is not yours to set.", fix="Rename it.")
    ours: dict[str, JsonValue] = {name: value for name in _OURS if (value := getattr(body, name)) is not None}
    if (conversation := body.conversation) is not None:
        ours["conversation"] = conversation
    attributes: dict[str, JsonValue] = {**metadata, KEPT: ours | body.repeated}
    return MessageContext(
        attributes=attributes, tools=body.offered, channel=metadata.get("channel"), user_kind=metadata.get("user_kind")
    )


def blank_of(name: Name, message: Message, begun: datetime | None) -> ResponseObject:
    """The response to that message as it was begun, and when. A message that came by another way has what is usual."""
    found = message.context.attributes.get(KEPT)
    try:
        return _blank_of(name, message, begun, dict(found) if isinstance(found, dict) else {})
    except ValidationError:  # of a message that came by another way, its attributes can hold anything
        return _blank_of(name, message, begun, {})


def _blank_of(name: Name, message: Message, begun: datetime | None, kept: dict[str, Any]) -> ResponseObject:
    attributes = message.context.attributes
    conversation = kept.get("conversation")
    asked = asked_at(message.id) or begun
    return ResponseObject(
        id=name.id,
        created_at=seconds(asked) if asked else 0,
        model=kept.get("model") or FRONT_DOOR,
        background=bool(kept.get("background")),
        instructions=_instructions(message),
        conversation=Conversation(id=conversation) if conversation else None,
        previous_response_id=kept.get("previous_response_id"),
        metadata={key: value for key, value in attributes.items() if key != KEPT and isinstance(value, str)},
        tools=[_tool(tool) for tool in message.context.tools],
        store=name.stored,
        turnwise=Behind(session_id=name.session, message_id=name.message),
        **{field: kept[field] for field in REPEATED if field in kept},
    )


def _instructions(message: Message) -> str | None:
    parts = (part for part in message.content.parts if isinstance(part, DataPart) and part.name == INSTRUCTIONS)
    return next((part.data for part in parts if isinstance(part.data, str)), None)


def _tool(tool: OfferedTool) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }
