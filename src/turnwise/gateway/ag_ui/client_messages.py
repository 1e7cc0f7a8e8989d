"""Tracks the client's copy of the conversation, which it builds from events. Pure.

AG-UI events only add to a message. Retracted output, and messages that the client has only in part, are corrected by a snapshot
of all messages at the end of the run.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from ag_ui.core import AssistantMessage, Message

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import USER, Event
from turnwise.gateway.ag_ui.history import result_id, result_text
from turnwise.gateway.ag_ui.schema import Wire
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.caller_tools import arguments_of
from turnwise.gateway.shared.stream import MessageCompleted, ReaderStream, ToolCalled, ToolReturned


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
