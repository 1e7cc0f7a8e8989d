"""The messages of the client: what a request repeats and what is new, and the client's copy of the conversation. Pure.

The client builds its copy from events, which only add to a message. Retracted output, and messages that the client has only in
part, are corrected by a snapshot of all messages at the end of the run.
"""

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from typing import Any, NamedTuple

from ag_ui.core import (
    AssistantMessage,
    AudioPart,
    Context,
    DeveloperMessage,
    DocumentPart,
    ImagePart,
    Message,
    SystemMessage,
    TextPart as WireText,
    ToolMessage,
    UserMessage,
    VideoPart,
)
from pydantic import JsonValue
from pydantic_core import to_json

from turnwise.facts.content import BlobPart, Content, Part, TextPart, ToolCallPart, ToolResultPart
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.events import USER, Event
from turnwise.facts.sessions import RECENT_CHARACTERS, Exchange
from turnwise.gateway.ag_ui.schema import Wire
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.content import arguments_of, blob_of, call_of, result_value
from turnwise.gateway.shared.exchanges import Exchanges, PastTurn
from turnwise.gateway.shared.stream import MessageCompleted, ReaderStream, ToolCalled, ToolReturned

AnyPart = WireText | ImagePart | AudioPart | VideoPart | DocumentPart
Where = tuple[str | int, ...]
RESULT_ID_PREFIX = "result:"
"""Prefix of the ids of our tool result messages. Those are ignored when a client sends them back."""


def parts_of(content: str | Sequence[AnyPart], where: Where, skipped: list[Where]) -> list[Part]:
    """Returns a message's parts. Files given by URL are not fetched: their places are added to `skipped`.

    Raises:
        RequestInvalid: A file is not base64.
    """
    if isinstance(content, str):
        return [TextPart(text=content)]
    parts: list[Part] = []
    for index, part in enumerate(content):
        if isinstance(part, WireText):
            parts.append(TextPart(text=part.text))
        elif part.source.type == "data" or part.source.value[:5].lower() == "data:":
            parts.append(_blob(part, (*where, index)))
        else:
            skipped.append((*where, index))
    return parts


def result_of(message: ToolMessage) -> ToolResultPart:
    """Returns the tool result in a tool message."""
    content = message.content
    text = content if isinstance(content, str) else "".join(part.text for part in content if isinstance(part, WireText))
    result = result_value(text) if text or not message.error else message.error
    return ToolResultPart(call_id=message.tool_call_id, result=result, failed=bool(message.error))


def result_text(value: JsonValue) -> str:
    """Returns a tool result as text; empty if it is hidden from the reader."""
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value, inf_nan_mode="null").decode()


def _blob(part: ImagePart | AudioPart | VideoPart | DocumentPart, where: Where) -> BlobPart:
    """Returns an embedded file. Raises RequestInvalid for invalid base64 or media type."""
    source = part.source
    url = f"data:{source.mime_type};base64,{source.value}" if source.type == "data" else source.value
    blob = blob_of(url, _name(part.metadata))
    if blob is None:
        problem = "The file is not base64, or its media type is invalid."
        raise RequestInvalid(problem, fix="Send base64 and a MIME type.", where=("body", *where, "source", "value"))
    return blob


def _name(metadata: Any) -> str | None:
    name = metadata.get("filename") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) and name else None


class NewMessages(NamedTuple):
    """The new input of a request."""

    new: tuple[tuple[Part, ...], ...]
    """The parts of each message after the assistant's last one."""
    skipped: tuple[Where, ...]
    """The places of parts that cannot be read."""


def result_id(call_id: str) -> str:
    """Returns the id of the message with a call's result."""
    return RESULT_ID_PREFIX + call_id


def new_messages(messages: Sequence[Message]) -> NewMessages:
    """Returns the messages after the assistant's last one. Raises RequestInvalid for files that are not base64."""
    last = next((index for index in range(len(messages), 0, -1) if isinstance(messages[index - 1], AssistantMessage)), 0)
    new: list[tuple[Part, ...]] = []
    skipped: list[Where] = []
    for index, message in enumerate(messages[last:], last):
        if isinstance(message, UserMessage):
            new.append(tuple(parts_of(message.content, ("messages", index, "content"), skipped)))
        elif isinstance(message, ToolMessage) and message.id != result_id(message.tool_call_id):
            new.append((result_of(message),))
    return NewMessages(tuple(parts for parts in new if any(map(_has_content, parts))), tuple(skipped))


def past_turns(messages: Sequence[Message]) -> tuple[PastTurn, ...]:
    """Returns the exchanges up to the assistant's last message, without unreadable files."""
    exchanges = Exchanges()
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls = [call_of(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
            exchanges.answer(message.content or "", calls=calls)
        elif isinstance(message, ToolMessage):
            exchanges.send([result_of(message)])
        elif isinstance(message, UserMessage):
            exchanges.send(_readable(message))
    exchanges.close()
    return tuple(exchanges.past)


def instructions_in(messages: Sequence[Message], context: Sequence[Context]) -> list[str]:
    """Returns the application's instructions and context, as instructions to the agent."""
    instructions = [message.content for message in messages if isinstance(message, SystemMessage | DeveloperMessage)]
    return [*instructions, *(f"{item.description}: {item.value}" if item.description else item.value for item in context)]


def without_repeated(new: Sequence[tuple[Part, ...]], recent: Sequence[Exchange], *, rest: bool) -> Sequence[tuple[Part, ...]]:
    """Removes leading messages that the session's log ends with. Clients repeat messages that got no answer.

    Args:
        rest: Whether the request has other input, so that every message may be a repetition. Otherwise the last one always
            counts as new.
    """
    earlier = [exchange.message for exchange in recent]
    for count in range(min(len(new) if rest else len(new) - 1, len(earlier)), 0, -1):
        if [_text(parts)[:RECENT_CHARACTERS] for parts in new[:count]] == earlier[len(earlier) - count :]:
            return new[count:]
    return new


def without_late_results(
    new: Sequence[tuple[Part, ...]], calls: Container[str]
) -> tuple[Sequence[tuple[Part, ...]], Sequence[str]]:
    """Removes messages with tool results for calls that are not open.

    Returns:
        The other messages, and the call ids of the removed results.
    """
    late = [part.call_id for parts in new for part in parts if isinstance(part, ToolResultPart) and part.call_id not in calls]
    unwanted = set(late)
    return [parts for parts in new if not (isinstance(parts[0], ToolResultPart) and parts[0].call_id in unwanted)], late


def merged_content(new: Sequence[tuple[Part, ...]]) -> Content:
    """Merges several messages into one."""
    return Content(role="user", parts=tuple(part for parts in new for part in parts))


def _readable(message: UserMessage) -> list[Part]:
    """Returns the parts of a past message, without those that cannot be read."""
    if isinstance(message.content, str):
        return [TextPart(text=message.content)]
    parts: list[Part] = []
    for part in message.content:
        try:
            parts += parts_of([part], (), [])
        except RequestInvalid:
            continue
    return parts


def _text(parts: Sequence[Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


def _has_content(part: Part) -> bool:
    return bool(part.text.strip()) if isinstance(part, TextPart) else True


class ClientState(NamedTuple):
    """The messages that the client already has."""

    ids: frozenset[str] = frozenset()
    """Message ids."""
    calls: frozenset[str] = frozenset()
    """Ids of the tool calls in the messages."""
    wires: Callable[[], list[Wire]] = list
    """Returns the messages as the client sent them."""


NOTHING = ClientState()


def client_state(messages: Sequence[Message]) -> ClientState:
    """Returns the state of a client that sends these messages."""
    calls = (call.id for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls or ())

    def wires() -> list[Wire]:
        return [message.model_dump(mode="json", by_alias=True) for message in messages if message.role != "activity"]

    return ClientState(frozenset(message.id for message in messages), frozenset(calls), wires)


def client_state_from_events(wires: list[Wire]) -> ClientState:
    """Returns the state of a client that received these messages."""
    calls = (call["id"] for wire in wires for call in wire.get("toolCalls") or ())
    return ClientState(frozenset(wire["id"] for wire in wires), frozenset(calls), lambda: wires)


class ClientMessages:
    """Records the messages sent in one run. `is_wrong` is set when the client's copy differs and needs a snapshot."""

    def __init__(self, client: ClientState = NOTHING) -> None:
        self._client = client
        self._sent: dict[str, Wire] = {}
        self._sequences: dict[str, int] = {}
        self._calls: dict[str, int] = {}
        self._removed: set[str] = set()
        self.is_wrong = False

    def holds(self, id_: str) -> bool:
        """Returns whether the client already had this message, at least in part, when the run began."""
        return id_ in self._client.ids

    def holds_call(self, call_id: str) -> bool:
        """Returns whether the client already had this call when the run began."""
        return call_id in self._client.calls

    def has_call(self, call_id: str) -> bool:
        """Returns whether this run sent the call, and it was not retracted."""
        return call_id in self._calls

    def is_open(self, call_id: str) -> bool:
        """Returns whether this run sent the call but not its result."""
        return call_id in self._calls and result_id(call_id) not in self._sent

    def set_text(self, event: Event, text: str, tag: str | None) -> None:
        """Sets the text of the event's message."""
        self._message(event, tag)["content"] = text

    def add_call(self, event: Event, part: ToolCallPart, tag: str | None) -> None:
        """Adds a tool call to the event's message."""
        call = {"id": part.call_id, "type": "function", "function": {"name": part.tool, "arguments": arguments_of(part)}}
        self._message(event, tag).setdefault("toolCalls", []).append(call)
        self._calls[part.call_id] = event.sequence or 0

    def add_result(self, event: Event, call_id: str, content: str, tag: str | None) -> None:
        """Adds the message with a call's result."""
        message = {"id": result_id(call_id), "role": "tool", "toolCallId": call_id, "content": content}
        self._enter(event, {**message, **({} if tag is None else {"subagentRunId": tag})})

    def retract(self, sequence: int) -> None:
        """Retracts all messages of events from this sequence number on."""
        removed = [id_ for id_, at in self._sequences.items() if at >= sequence]
        for id_ in removed:
            del self._sent[id_], self._sequences[id_]
        self._calls = {id_: at for id_, at in self._calls.items() if at < sequence}
        self.drop(removed)

    def drop(self, ids: Collection[str]) -> None:
        """Removes these messages and requires a snapshot if there are any."""
        self._removed |= set(ids)
        self.is_wrong |= bool(ids)

    def messages(self) -> list[Wire]:
        """Returns all messages: the client's, corrected and in its order, then the new ones."""
        sent, earlier = dict(self._sent), [wire for wire in self._client.wires() if wire["id"] not in self._removed]
        return [*(sent.pop(wire["id"], wire) for wire in earlier), *sent.values()]

    def drain(self) -> list[Wire]:
        """Returns the messages added since the last call, and forgets them."""
        messages, self._sent, self._sequences = list(self._sent.values()), {}, {}
        return messages

    def _message(self, event: Event, tag: str | None) -> Wire:
        if event.id not in self._sent:
            blank = {"id": event.id, "role": "assistant", "name": event.author}
            self._enter(event, {**blank, **({} if tag is None else {"subagentRunId": tag})})
        return self._sent[event.id]

    def _enter(self, event: Event, message: Wire) -> None:
        self._removed.discard(message["id"])
        self._sent[message["id"]], self._sequences[message["id"]] = message, event.sequence or 0


def messages_in(events: Iterable[Event], view: Redactor) -> list[Wire]:
    """Returns the messages that a log contains for this reader."""
    recorded, stream, messages = ClientMessages(), ReaderStream(), list[Wire]()
    for event in events:
        shown = view.event(event)
        if event.author == USER and shown.text:
            messages.append({"id": event.id, "role": "user", "content": shown.text})
        for item in stream.feed(shown):
            match item:
                case MessageCompleted(source, text):
                    recorded.set_text(source, text, None)
                case ToolCalled(source, call):
                    recorded.add_call(source, call, None)
                case ToolReturned(source, result) if recorded.has_call(result.call_id):
                    recorded.add_result(source, result.call_id, result_text(result.result), None)
        messages += recorded.drain()
    return messages


def restored_messages(client: Sequence[Wire], log: Sequence[Wire]) -> list[Wire]:
    """Merges a client's messages with those of the log.

    Messages with the same id take the log's version. Those that follow the last shared one in the log are appended. A client
    without messages receives the whole log; a client that shares none receives nothing new.
    """
    ids = {message.get("id") for message in client}
    shared = max((index for index, message in enumerate(log, 1) if message["id"] in ids), default=0)
    known = {message["id"]: message for message in log}
    own = [known.get(str(message.get("id")), message) for message in client]
    if shared or not client:
        return [*own, *log[shared:]]
    return own
