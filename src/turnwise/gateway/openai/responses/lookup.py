"""Finds a response by its id and builds its current state."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import JsonValue, ValidationError

from turnwise.facts.callers import Permission
from turnwise.facts.content import DataPart
from turnwise.facts.errors import Forbidden, InvocationMissing, NothingHere, SessionMissing
from turnwise.facts.events import Event
from turnwise.facts.fact import replaced
from turnwise.facts.messages import Message, MessageContext, OfferedTool
from turnwise.facts.waits import calls_in
from turnwise.gateway.front import Front
from turnwise.gateway.openai.errors import invalid_parameter
from turnwise.gateway.openai.models import SELECTING_MODEL
from turnwise.gateway.openai.responses.ids import RESPONSE, ResponseId, created_at, parse_response_id
from turnwise.gateway.openai.responses.request_schema import RETURNED_UNCHANGED, Create, ThreadOrConversation
from turnwise.gateway.openai.responses.result import final_response, seconds
from turnwise.gateway.openai.responses.schema import Conversation, ResponseObject
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services import Services
from turnwise.gateway.services.sessions import Window
from turnwise.gateway.services.threads import QUEUED, REFUSED, KnownMessage
from turnwise.gateway.shared.exchanges import INSTRUCTIONS
from turnwise.gateway.shared.stream import DecisionInfo

PARAMETERS_ATTRIBUTE = "openai.response"
"""The message attribute that stores the request's own parameters. The other attributes are the request's metadata."""
_OURS = ("model", "previous_response_id", "background")


def context_of(body: Create) -> MessageContext:
    """Returns the message's context: the caller's tools, and the metadata as attributes.

    `channel` and `user_kind` in the metadata select the policy's segment.

    Raises:
        RequestInvalid: The metadata uses the reserved key.
    """
    metadata = body.metadata or {}
    if PARAMETERS_ATTRIBUTE in metadata:
        raise invalid_parameter(
            ("metadata", PARAMETERS_ATTRIBUTE), f"The key {PARAMETERS_ATTRIBUTE!r} is reserved.", fix="Rename it."
        )
    ours: dict[str, JsonValue] = {name: value for name in _OURS if (value := getattr(body, name)) is not None}
    if (conversation := body.conversation) is not None:
        ours["conversation"] = conversation
    attributes: dict[str, JsonValue] = {**metadata, PARAMETERS_ATTRIBUTE: ours | body.repeated}
    return MessageContext(
        attributes=attributes, tools=body.offered, channel=metadata.get("channel"), user_kind=metadata.get("user_kind")
    )


def new_response(name: ResponseId, message: Message, begun: datetime | None) -> ResponseObject:
    """Returns the response to a message before it has output.

    `begun` is when the message was started, in case its id does not contain the time. A message that came through
    another protocol gets default values.
    """
    found = message.context.attributes.get(PARAMETERS_ATTRIBUTE)
    try:
        return _blank_of(name, message, begun, dict(found) if isinstance(found, dict) else {})
    except ValidationError:  # a message from another protocol may have any attributes
        return _blank_of(name, message, begun, {})


def _blank_of(name: ResponseId, message: Message, begun: datetime | None, kept: dict[str, Any]) -> ResponseObject:
    """Rebuilds the response object of a stored message before its output: ids, time, and the kept request parameters."""
    attributes = message.context.attributes
    conversation = kept.get("conversation")
    asked = created_at(message.id) or begun
    return ResponseObject(
        id=name.id,
        created_at=seconds(asked) if asked else 0,
        model=kept.get("model") or SELECTING_MODEL,
        background=bool(kept.get("background")),
        instructions=_instructions(message),
        conversation=Conversation(id=conversation) if conversation else None,
        previous_response_id=kept.get("previous_response_id"),
        metadata={key: value for key, value in attributes.items() if key != PARAMETERS_ATTRIBUTE and isinstance(value, str)},
        tools=[_tool(tool) for tool in message.context.tools],
        store=name.stored,
        turnwise=DecisionInfo(session_id=name.session, message_id=name.message),
        **{field: kept[field] for field in RETURNED_UNCHANGED if field in kept},
    )


def _instructions(message: Message) -> str | None:
    parts = (part for part in message.content.parts if isinstance(part, DataPart) and part.name == INSTRUCTIONS)
    return next((part.data for part in parts if isinstance(part.data, str)), None)


def _tool(tool: OfferedTool) -> dict[str, Any]:
    """Returns a tool that the caller offered, in the form of the API."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


CANCELLED = "cancelled"


class FoundResponse(NamedTuple):
    """A response that exists."""

    name: ResponseId
    blank: ResponseObject
    """The response before it had output."""
    known: KnownMessage
    services: Services
    """The services for the response's user."""


async def find_response(services: Services, response_id: str, *, to: Permission = "sessions:read") -> FoundResponse:
    """Returns the response with this id. `to` is the permission that the operation needs.

    Raises:
        NothingHere: There is no such response, or it is another user's.
        Forbidden: The caller does not have the permission; also if there is no such response.
    """
    name = parse_response_id(response_id) if response_id.startswith(RESPONSE) else None
    try:
        if name is None or not name.stored:
            raise InvocationMissing("This is not the id of a stored response.")
        with as_missing(services.scope.named, name):
            services = services_of_response(services, name)
            services.scope.session(to, name.session)
            known = await services.threads.known(name.session, name.message)
    except (InvocationMissing, SessionMissing):
        raise NothingHere(f"There is no response {response_id[:200]!r}.", fix="Check the id.") from None
    result = known.reading.result if known.reading else None
    begun = result.events[0].created_at if result else None
    return FoundResponse(name, new_response(name, known.receipt.message, begun), known, services)


def services_of_response(services: Services, name: ResponseId) -> Services:
    """Returns the services for the user that the request names; otherwise for the one in the response's id."""
    return services.for_user(name.user) if services.scope.named is None else services


@contextmanager
def as_missing(user: str | None, name: ResponseId) -> Iterator[None]:
    """Converts Forbidden to InvocationMissing if only the response's id names another user."""
    try:
        yield
    except Forbidden:
        if user is None and name.user is not None:
            raise InvocationMissing("It is another user's.") from None
        raise


def current_response(found: FoundResponse, view: Redactor) -> ResponseObject:
    """Returns the response in its current state."""
    receipt, reading, before = found.known
    if receipt.state == REFUSED and receipt.problem != CANCELLED:
        return replaced(found.blank, status="failed")
    if receipt.state == REFUSED:
        return final_response(found.name, found.blank, (), view)
    if receipt.state == QUEUED or reading is None or reading.result is None:
        return replaced(found.blank, status="queued")
    now = final_response(found.name, found.blank, reading.result.events, view, calls_in(before))
    if reading.state == "running":
        return replaced(now, status="in_progress", completed_at=None, error=None, usage=None)
    return now


async def previous_response(services: Services, response_id: str) -> FoundResponse:
    """Returns the response that a request continues from. Raises NothingHere, which names the parameter."""
    try:
        return await find_response(services, response_id)
    except NothingHere as error:
        raise NothingHere(error.problem, fix=error.fix, where=("body", "previous_response_id")) from None


async def conversation_events(front: Front, services: Services, body: ThreadOrConversation) -> Sequence[Event]:
    """Returns the events that agents would read of the conversation that the request continues."""
    window, session = Window(last=front.runner.config.limits.history_events), body.conversation
    if body.previous_response_id is not None:
        found = await previous_response(services, body.previous_response_id)
        result = found.known.reading.result if found.known.reading else None
        last = result.events[-1].sequence if result else None
        session, services, window = found.name.session, found.services, window._replace(before=last + 1 if last else None)
    if session is None:
        return ()
    try:
        return (await services.sessions.events(session, window)).events
    except SessionMissing:
        raise NothingHere("There is no such conversation.", fix="Check the id.", where=("body", "conversation")) from None
