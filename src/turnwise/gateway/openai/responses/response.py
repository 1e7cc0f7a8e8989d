"""A response of OpenAI's API: its id, how it is found, and its state, built from the events of its message.

An id contains the session's id, so that a response and its items are found by their ids alone. The encoding is that of
`gateway/shared/packed_ids.py`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pydantic import JsonValue, ValidationError

from turnwise.facts.callers import Permission
from turnwise.facts.content import DataPart, ToolCallPart
from turnwise.facts.errors import Forbidden, InvocationMissing, NothingHere, SessionMissing
from turnwise.facts.events import LIMIT, USER, End, Event
from turnwise.facts.fact import replaced
from turnwise.facts.ids import SystemIssuer, is_storable_id
from turnwise.facts.messages import Message, MessageContext, OfferedTool
from turnwise.facts.sessions import visible
from turnwise.facts.waits import Wait, calls_in, is_late
from turnwise.gateway.front import Front
from turnwise.gateway.openai.errors import invalid_parameter
from turnwise.gateway.openai.models import SELECTING_MODEL
from turnwise.gateway.openai.responses.schema import (
    RETURNED_UNCHANGED,
    CallItem,
    Conversation,
    Create,
    Failure,
    Incomplete,
    InputTokens,
    Item,
    MessageItem,
    OutputText,
    ResponseObject,
    Status,
    ThreadOrConversation,
    Tokens,
)
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services import Services
from turnwise.gateway.services.sessions import Window
from turnwise.gateway.services.threads import QUEUED, REFUSED, KnownMessage
from turnwise.gateway.shared.content import arguments_of
from turnwise.gateway.shared.exchanges import INSTRUCTIONS
from turnwise.gateway.shared.packed_ids import GENERATED_ID, digest, pack_ids, unpack_ids
from turnwise.gateway.shared.stream import (
    COMPLETE_ENDS,
    DecisionInfo,
    MessageCompleted,
    ReaderStream,
    StreamItem,
    Waiting,
    failure_text,
    shown_text,
    token_usage,
)

RESPONSE, MESSAGE, CALL, FUNCTION = "resp_", "msg_", "call_", "fc_"
UNSTORED = "unstored"
"""The prefix of message ids of unstored responses, and of sessions that hold nothing else."""


class ResponseId(NamedTuple):
    """Identifies a response: the session and the message that it answers."""

    session: str
    message: str
    user: str | None = None
    """The session's user; None for the caller."""

    @property
    def stored(self) -> bool:
        """Whether the response can be retrieved later."""
        return not self.message.startswith(UNSTORED)

    @property
    def id(self) -> str:
        """The response's id."""
        return RESPONSE + pack_ids(self.session, self.message, *self._user_part)

    def item(self, event: Event) -> str:
        """Returns the id of the output item for an event."""
        return MESSAGE + pack_ids(self.session, self.message, event.id, *self._user_part)

    def given(self, place: int) -> str:
        """Returns the id of the input item at this position."""
        return MESSAGE + pack_ids(self.session, self.message, f"given-{place}", *self._user_part)

    def function(self, call_id: str) -> str:
        """Returns the id of the output item for a tool call."""
        return FUNCTION + pack_ids(self.session, self.message, call_id, *self._user_part)

    def call(self, call_id: str) -> str:
        """Returns the id of a tool call as the caller sees it."""
        return CALL + pack_ids(self.session, call_id, *self._user_part)

    @property
    def _user_part(self) -> tuple[str, ...]:
        return () if self.user is None else (self.user,)


class CallId(NamedTuple):
    """Identifies a tool call that waits for its result."""

    session: str
    id: str
    """The call's id in the session."""
    user: str | None = None
    """The session's user; None for the caller."""


def parse_response_id(id_: str) -> ResponseId | None:
    """Parses the id of a response or of one of its items; None if it is not valid."""
    for prefix, parts in ((RESPONSE, 2), (MESSAGE, 3), (FUNCTION, 3)):
        if id_.startswith(prefix) and (found := unpack_ids(id_.removeprefix(prefix), parts)):
            name = ResponseId(found[0], found[1], *found[parts:])
            return name if all(map(is_storable_id, (name.session, name.message, name.user or "-"))) else None
    return None


def parse_call_id(call_id: str) -> CallId | None:
    """Parses the id of a tool call as the caller sees it; None if it is not valid."""
    found = unpack_ids(call_id.removeprefix(CALL), 2) if call_id.startswith(CALL) else None
    call = CallId(*found) if found else None
    return call if call and is_storable_id(call.session) and is_storable_id(call.user or "-") else None


def new_message(key: str | None = None, *, stored: bool = True) -> str:
    """Returns the id of a new message; the same for the same key. Without a key, the id contains the time of its creation."""
    if key is None:
        return SystemIssuer().new_id("message" if stored else UNSTORED)
    return f"keyed-{digest(key)}" if stored else f"{UNSTORED}-keyed-{digest(key)}"


def unstored_session(key: str | None = None) -> str:
    """Returns the id of a session that is deleted after its response; the same for the same key."""
    return SystemIssuer().new_id(UNSTORED) if key is None else f"{UNSTORED}-{digest(key)}"


def created_at(message_id: str) -> datetime | None:
    """Returns when a message id was generated; None for an id that was derived or comes from elsewhere."""
    made = GENERATED_ID.fullmatch(message_id)
    if made is None or made[1] not in ("message", UNSTORED) or made[3] or made[2][0] > "1":
        return None
    return datetime.fromtimestamp(int(made[2][:12], 16) / 1000, UTC)


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


class Items:
    """Converts events to output items in log order. It lists only the tool calls that the caller may answer.

    Attributes:
        stream: The events as a reader sees them.
        pending: Whether an agent's own tool is still running.
    """

    def __init__(self, name: ResponseId, view: Redactor) -> None:
        self._name, self._view = name, view
        self.stream = ReaderStream(serial=True)
        self.pending = False

    def of(self, event: Event) -> list[Item]:
        """Returns the output items of a stored event."""
        return [item for each in self.stream.feed(event) if (item := self.item(each)) is not None]

    def item(self, each: StreamItem) -> Item | None:
        """Returns the output item that is complete with this item of the stream; None if none is."""
        match each:
            case MessageCompleted(event, text) if text:
                return MessageItem(id=self._name.item(event), content=[OutputText(text=text)], agent=event.author)
            case Waiting(Wait(call=call, agent=agent)) if call is not None:
                self.pending |= is_late(call)
                return self._call(call, agent) if self._view.answers(call) else None
        return None

    def _call(self, call: ToolCallPart, agent: str) -> CallItem:
        id_, written = call.call_id, arguments_of(call)
        return CallItem(
            id=self._name.function(id_), call_id=self._name.call(id_), name=call.tool, arguments=written, agent=agent
        )


_COUNTED = frozenset({"limit:turns", "limit:steps", "limit:events"})
_EXPIRED = frozenset({"limit:wait_seconds", "limit:waits"})
"""The ends of expired waits. The response keeps its earlier status."""


def final_response(
    name: ResponseId, blank: ResponseObject, events: Sequence[Event], view: Redactor, before: Sequence[ToolCallPart] = ()
) -> ResponseObject:
    """Returns the response once it is answered or waits.

    Args:
        name: The response's id.
        blank: The response before it had output.
        events: The stored events of its message; empty if it was cancelled before it started.
        view: The caller's redactor.
        before: The earlier tool calls of its invocation.
    """
    shown = visible(events)
    end = End(reason="cancelled") if not events else _end_of(shown)
    items, output = Items(name, view), list[Item]()
    items.stream.know(before)
    for event in shown:
        output += items.of(event)
    status, incomplete = _status(shown, end)
    return replaced(
        blank,
        status=status,
        completed_at=seconds(shown[-1].created_at) if status == "completed" and shown else None,
        incomplete_details=incomplete,
        error=_failure(shown, end, view) if status == "failed" else None,
        output=output,
        usage=_tokens(shown),
        turnwise=_decision_info(blank.turnwise, shown, view, pending=items.pending and not _is_over(shown)),
    )


def seconds(time: datetime) -> int:
    """Returns the time as a Unix timestamp in seconds."""
    return int(time.timestamp())


def _end_of(events: Sequence[Event]) -> End | None:
    """Returns the end of the invocation; None if it waits or its wait expired."""
    end = next((event.actions.end for event in reversed(events) if event.actions.end), None)
    return None if end is not None and end.reason in _EXPIRED else end


def _is_over(events: Sequence[Event]) -> bool:
    return any(event.actions.end for event in events)


def _status(events: Sequence[Event], end: End | None) -> tuple[Status, Incomplete | None]:
    """Returns the status of a finished response, and why it is incomplete."""
    last = next((event for event in reversed(events) if shown_text(event)), None)
    if end is not None and end.reason == "cancelled":
        return "cancelled", None
    if end is not None and end.reason not in COMPLETE_ENDS:
        if last is None or not end.reason.startswith(LIMIT):
            return "failed", None
        limit = "messages" if end.reason in _COUNTED else end.reason.removeprefix(LIMIT)
        return "incomplete", Incomplete(reason=f"max_{limit}")
    if last is not None and last.actions.blocked_by:
        return "incomplete", Incomplete(reason="content_filter")
    if last is not None and last.actions.cut_off:
        return "incomplete", Incomplete(reason="max_output_tokens")
    return "completed", None


def _decision_info(known: DecisionInfo, events: Sequence[Event], view: Redactor, *, pending: bool) -> DecisionInfo:
    selection = next((event.actions.selection for event in events if event.author == USER and event.actions.selection), None)
    return known.known(events[0].invocation_id if events else None, selection, view, pending=pending)


def _failure(events: Sequence[Event], end: End | None, view: Redactor) -> Failure:
    error = next((event.error for event in reversed(events) if event.error), None)
    return Failure(message=failure_text(end.reason if end else "", error, view))


def _tokens(events: Sequence[Event]) -> Tokens:
    """Returns the token counts of all model calls."""
    used = token_usage(events)
    return Tokens(
        input_tokens=used.asked,
        input_tokens_details=InputTokens(cached_tokens=used.cached),
        output_tokens=used.answered,
        total_tokens=used.asked + used.answered,
    )
