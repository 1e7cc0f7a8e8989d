"""Converts session events to the ADK's events, for one reader, and content to the ADK's parts and back. Pure."""

from base64 import b64decode, urlsafe_b64encode
from binascii import Error
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote, urlencode

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from turnwise.facts.content import (
    ArtifactPart,
    BlobPart,
    Content as Ours,
    DataPart,
    Part as OurPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.events import USER, Actions as OurActions, Branch, Event as OurEvent
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import USER_PREFIX, SessionKey
from turnwise.facts.usage import Usage
from turnwise.facts.waits import is_approval
from turnwise.gateway.adk.schema import (
    Actions,
    Blob,
    Confirmation,
    Content,
    Event,
    FileData,
    FunctionCall,
    FunctionResponse,
    MessageContent,
    NodeInfo,
    Part,
    PastEvent,
    UsageMetadata,
)
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.sessions import left_out_bytes
from turnwise.gateway.shared.content import DEFAULT_TYPE
from turnwise.gateway.shared.stream import COMPLETE_ENDS, failure_text
from turnwise.runner import PastExchange
from turnwise.tools.names import CONFIRM

METADATA_KEY = "turnwise"
"""The key in an event's metadata that holds the selected agent and the reason."""


class EventWriter:
    """Converts the events of one session. Pass them in order, including partial ones."""

    def __init__(self, key: SessionKey, view: Redactor) -> None:
        self._key, self._view = key, view
        self._pending: deque[Selection] = deque()
        self._failed: set[str] = set()
        self._calls: dict[str, ToolCallPart] = {}

    def write(self, event: OurEvent) -> Event | None:
        """Returns the ADK event; None if it has nothing for the reader. Private events keep their state and artifact changes
        only.
        """
        event = self._with_call(event)
        if event.is_private and event.actions.awaits is None:
            event = _shared_effects(event)
        shown = self._view.event(event)
        has_selection = self._record_selection(shown)
        content, actions, error = self._content(shown), self._actions(shown), self._error(shown)
        if content is None and actions == Actions() and not error and not has_selection:
            return None
        usage = shown.actions.usage
        return Event(
            id=shown.id,
            author=shown.author,
            invocation_id=shown.invocation_id,
            timestamp=shown.created_at.timestamp(),
            content=content,
            partial=True if shown.partial else None,
            interrupted=True if shown.actions.end is not None and shown.actions.end.reason == "cancelled" else None,
            finish_reason=None if shown.actions.cut_off is None else "MAX_TOKENS",
            error_code=error[0] if error else None,
            error_message=error[1] if error else None,
            custom_metadata=self._selection_metadata(shown),
            usage_metadata=_usage(usage),
            model_version=usage.model or None if usage else None,
            actions=actions,
            long_running_tool_ids=sorted(call.call_id for call in self._open_calls(shown)) or None,
            branch=_branch(shown.branch),
            node_info=NodeInfo(path="" if shown.author == USER else shown.author),
        )

    def _with_call(self, event: OurEvent) -> OurEvent:
        """Adds the call to an event that starts waiting for its result, if another event made the call. ADK clients expect both
        in one event.
        """
        if event.content is not None and not event.partial:
            self._calls |= {call.call_id: call for call in event.content.tool_calls if not call.offered}
        awaits = event.actions.awaits
        call = self._calls.get(awaits.id) if awaits and event.content is None else None
        if call is None or not self._view.answers(call):
            return event
        return event.with_content(Ours(parts=(call,)))

    def _content(self, event: OurEvent) -> Content | None:
        """Returns the event's content in ADK parts; None without any. Tool results get the role `user`, as in the ADK."""
        if event.content is None:
            return None
        parts = parts_of(event.content, self._key, partial=event.partial, sequence=event.sequence)
        if not parts:
            return None
        is_result = all(part.function_response is not None for part in parts)
        return Content(parts=parts, role="user" if is_result or event.author == USER else "model")

    def _actions(self, event: OurEvent) -> Actions:
        """Returns the event's actions in the ADK's form; approval requests become requested confirmations."""
        actions = event.actions
        confirmations = [call for call in self._open_calls(event) if is_approval(call)]
        hint = event.text
        return Actions(
            state_delta=actions.state_delta,
            artifact_delta={name: to_adk_version(version) for name, version in actions.artifact_versions.items()},
            transfer_to_agent=actions.transfer_to,
            escalate=True if actions.escalate else None,
            requested_tool_confirmations={str(call.arguments.get("call")): Confirmation(hint=hint) for call in confirmations},
        )

    def _open_calls(self, event: OurEvent) -> Iterator[ToolCallPart]:
        """Yields the event's calls that this reader may answer."""
        awaits, content = event.actions.awaits, event.content or Ours()
        for call in () if event.partial else content.tool_calls:
            if (call.offered or (awaits and awaits.id == call.call_id)) and self._view.answers(call):
                yield call

    def _error(self, event: OurEvent) -> tuple[str, str] | None:
        """Returns the failure's code and message, once for each invocation."""
        end = event.actions.end
        if event.error is not None:
            self._failed.add(event.invocation_id)
            return event.error.code, event.error.message
        if end is None or end.reason in COMPLETE_ENDS or event.invocation_id in self._failed:
            return None
        return end.reason, failure_text(end.reason, None, self._view)

    def _record_selection(self, event: OurEvent) -> bool:
        """Records the event's selection. Returns True for an agent's event; the selection for a user's message is attached to a
        later event.
        """
        selection = event.actions.selection
        if selection is None:
            return False
        if event.author == USER:
            self._pending.clear()
        self._pending.append(selection)
        return event.author != USER

    def _selection_metadata(self, event: OurEvent) -> dict[str, JsonValue] | None:
        """Attaches one pending selection to each complete agent event."""
        if not self._pending or event.author == USER or event.partial:
            return None
        selection = self._pending.popleft()
        return {METADATA_KEY: {"agent": selection.agent, "method": selection.method, "reason": selection.reason}}


def write_events(events: Iterable[OurEvent], key: SessionKey, view: Redactor) -> list[Event]:
    """Converts all of a session's events, which are in order."""
    writer = EventWriter(key, view)
    return [shown for shown in map(writer.write, events) if shown is not None]


def _shared_effects(event: OurEvent) -> OurEvent:
    """Strips the event to its state and artifact changes, which everyone may see."""
    actions = OurActions(state_delta=event.actions.state_delta, artifact_versions=event.actions.artifact_versions)
    return event.replace(content=None, error=None, actions=actions)


def _usage(usage: Usage | None) -> UsageMetadata | None:
    """Converts the token counts of a model call; None stays None."""
    if usage is None:
        return None
    return UsageMetadata(
        prompt_token_count=usage.input_tokens,
        cached_content_token_count=usage.cached_tokens or None,
        candidates_token_count=usage.output_tokens,
        total_token_count=usage.input_tokens + usage.output_tokens,
    )


def _branch(branch: Branch) -> str | None:
    """Returns the names in a branch, joined by dots; None for the main branch."""
    names = [part[1:] for part in branch.segments if part[:1] in ("~", ">")]
    return ".".join(names) or None


CONFIRMATION = "adk_request_confirmation"
"""The tool by which the ADK asks for an approval."""
Where = tuple[str | int, ...]
MESSAGE: Where = ("body", "newMessage")
_STANDARD = bytes.maketrans(b"-_", b"+/")


def parts_of(content: Ours, key: SessionKey, *, partial: bool, sequence: int | None = None) -> list[Part]:
    """Returns content as ADK parts. Partial content has no tool calls.

    Args:
        sequence: The number of the event, by which the data of a large blob is found.
    """
    return list(_parts(content, key, partial=partial, sequence=sequence))


def _parts(content: Ours, key: SessionKey, *, partial: bool, sequence: int | None) -> Iterator[Part]:
    """Yields the content's parts in the ADK's form. Large blobs and artifacts become file URIs."""
    has_text = bool(content.text)
    for part in content.parts:
        if isinstance(part, TextPart):
            yield Part(text=part.text)
        elif isinstance(part, ThinkingPart) and part.text:
            yield Part(text=part.text, thought=True)
        elif isinstance(part, BlobPart) and left_out_bytes(part) is not None:
            uri = event_path(key, sequence or 1)
            yield Part(file_data=FileData(file_uri=uri, mime_type=part.mime_type, display_name=part.name))
        elif isinstance(part, BlobPart):
            yield Part(inline_data=Blob(data=encode_bytes(part.data), mime_type=part.mime_type, display_name=part.name))
        elif isinstance(part, ArtifactPart):
            uri = artifact_uri(key, part.name, part.version)
            yield Part(file_data=FileData(file_uri=uri, mime_type=part.mime_type, display_name=part.title or part.name))
        elif isinstance(part, DataPart) and not part.private and not has_text:
            yield Part(text=to_json(part.data).decode())
        elif isinstance(part, ToolCallPart) and not partial:
            yield Part(function_call=_call(part, content))
        elif isinstance(part, ToolResultPart):
            yield Part(function_response=_response(part))


def encode_bytes(data: bytes) -> str:
    """Encodes bytes in URL-safe base64, as the ADK does."""
    return urlsafe_b64encode(data).decode()


def event_path(key: SessionKey, sequence: int) -> str:
    """Returns the path in Turnwise's API of an event with the data of its blobs."""
    query = urlencode({"after": sequence - 1, "limit": 1, "blobs": "true", "user": key.user})
    return f"/api/v1/sessions/{quote(key.id, safe='')}/events?{query}"


def artifact_uri(key: SessionKey, name: str, version: int | None) -> str:
    """Returns the ADK's URI of an artifact, unescaped. version: Turnwise's number; None = the latest."""
    user_uri = f"artifact://apps/{key.app}/users/{key.user}"
    owner_uri = user_uri if name.startswith(USER_PREFIX) else f"{user_uri}/sessions/{key.id}"
    return f"{owner_uri}/artifacts/{name}/versions/{'latest' if version is None else to_adk_version(version)}"


def to_adk_version(version: int) -> int:
    """Converts a version number: Turnwise counts from 1, the ADK from 0."""
    return version - 1


def from_adk_version(version: int) -> int:
    """Converts a version number of the ADK."""
    return version + 1


def _call(part: ToolCallPart, content: Ours) -> FunctionCall:
    """Converts a tool call; an approval request becomes the ADK's confirmation call."""
    if part.tool != CONFIRM:
        args: dict[str, JsonValue] = part.arguments if part.raw is None else {"raw": part.raw}
        return FunctionCall(id=part.call_id, name=part.tool, args=args)
    asked = part.arguments
    original: dict[str, JsonValue] = {"id": asked.get("call"), "name": asked.get("tool"), "args": asked.get("arguments", {})}
    wanted: dict[str, JsonValue] = {"hint": content.text, "confirmed": False}
    return FunctionCall(id=part.call_id, name=CONFIRMATION, args={"originalFunctionCall": original, "toolConfirmation": wanted})


def _response(part: ToolResultPart) -> FunctionResponse:
    """Converts a tool result; an approval becomes the ADK's confirmation response."""
    result = part.result
    if part.tool == CONFIRM:
        approved = result.get("approved") if isinstance(result, dict) else result
        return FunctionResponse(id=part.call_id, name=CONFIRMATION, response={"confirmed": approved is True})
    if part.failed:
        response: dict[str, JsonValue] = {"error": result}
    else:
        response = result if isinstance(result, dict) else {} if result is None else {"result": result}
    return FunctionResponse(id=part.call_id, name=part.tool, response=response)


def message_of(message: MessageContent) -> Ours:
    """Converts the message of a run. Raises RequestInvalid."""
    parts = message.parts or ()
    return Ours(role="user", parts=tuple(_part(part, (*MESSAGE, "parts", index)) for index, part in enumerate(parts)))


def past_exchanges(events: Sequence[PastEvent]) -> list[PastExchange]:
    """Converts imported events to past exchanges of text and files.

    Raises:
        RequestInvalid: An event holds tool calls or results, which could be forged, or actions.
    """
    past: list[PastExchange] = []
    for index, event in enumerate(events):
        where: Where = ("body", "events", index)
        if event.long_running_tool_ids or any(event.actions.values() if event.actions else ()):
            raise RequestInvalid(
                "An imported event cannot have actions or waits.", fix="Send its content alone.", where=(*where, "actions")
            )
        parts = tuple(_past_part(part, (*where, "content", "parts", at)) for at, part in enumerate(_parts_of(event)))
        if not parts:
            continue
        if event.author == USER:
            past.append(PastExchange(Ours(role="user", parts=parts)))
        else:
            before = past.pop() if past else PastExchange(None)
            past.append(before._replace(said=(*before.said, Ours(parts=parts))))
    return past


def decode_bytes(blob: Blob, where: Where) -> bytes:
    """Decodes base64 of either alphabet, with or without padding. Raises RequestInvalid."""
    try:
        data = blob.data.encode("ascii").translate(_STANDARD)
        return b64decode(data + b"=" * (-len(data) % 4), validate=True)
    except (Error, ValueError):
        raise RequestInvalid("This is not base64.", fix="Send the bytes in base64.", where=(*where, "data")) from None


def _parts_of(event: PastEvent) -> Sequence[Part]:
    return () if event.partial or event.content is None else event.content.parts or ()


def _past_part(part: Part, where: Where) -> OurPart:
    if part.function_call or part.function_response:
        problem = "Tool calls and results cannot be imported."
        raise RequestInvalid(problem, fix="Send their content as text.", where=where)
    return _part(part, where)


def _part(part: Part, where: Where) -> OurPart:
    """Converts one part of a caller's message. Raises RequestInvalid for an unsupported kind."""
    if part.function_response is not None:
        return _result(part.function_response, (*where, "functionResponse"))
    if part.text is not None:
        return TextPart(text=part.text)
    if part.inline_data is not None:
        blob = part.inline_data
        data = decode_bytes(blob, (*where, "inlineData"))
        return BlobPart(data=data, mime_type=blob.mime_type or DEFAULT_TYPE, name=blob.display_name)
    problem = "This kind of part is not supported."
    raise RequestInvalid(problem, fix="Send a text, inlineData or a functionResponse. Nothing is fetched.", where=where)


def _result(response_part: FunctionResponse, where: Where) -> ToolResultPart:
    """Converts a function response of a caller; a confirmation becomes an approval. Raises RequestInvalid without an id."""
    if not response_part.id:
        raise RequestInvalid("The tool result has no call id.", fix="Send the id of the call.", where=(*where, "id"))
    response: JsonValue = response_part.response
    if response_part.name == CONFIRMATION:
        return ToolResultPart(
            call_id=response_part.id, tool=CONFIRM, result={"approved": _is_confirmed(response_part.response or {})}
        )
    return ToolResultPart(call_id=response_part.id, tool=response_part.name or "", result=response)


def _is_confirmed(response: dict[str, JsonValue]) -> bool:
    """Returns whether the response approves. ADK clients may wrap it as JSON text."""
    answer: JsonValue = response
    wrapped = response.get("response")
    if len(response) == 1 and isinstance(wrapped, str):
        try:
            answer = from_json(wrapped)
        except (ValueError, TypeError):
            return False
    return isinstance(answer, dict) and answer.get("confirmed") is True
