"""The messages of the conversation as they should stand with the client, who builds them of events. Pure.

Events add to a message and never take anything back. So what was told and did not stay, because a process died or a guardrail
took it out, and what the client has got of a message before, is put right by a snapshot of all messages at the end.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from ag_ui.core import AssistantMessage, Message

from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import USER, Event
from turnwise.gateway.ag_ui.history import result_id, result_text
from turnwise.gateway.ag_ui.schema import Wire
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.tool_calls import arguments_of
from turnwise.gateway.shared.utterances import shown_text
from turnwise.transcript.waits import kind_of


class ClientState(NamedTuple):
    """What the client has: ids of messages, and of the calls in them. wires: the messages as it sent them."""

    ids: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    wires: Callable[[], list[Wire]] = list


NOTHING = ClientState()


def client_state(messages: Sequence[Message]) -> ClientState:
    """What a client has that sends these."""
    calls = (call.id for each in messages if isinstance(each, AssistantMessage) for call in each.tool_calls or ())

    def wires() -> list[Wire]:
        return [each.model_dump(mode="json", by_alias=True) for each in messages if each.role != "activity"]

    return ClientState(frozenset(each.id for each in messages), frozenset(calls), wires)


def client_state_from_events(wires: list[Wire]) -> ClientState:
    """What a client has that was told these."""
    calls = (call["id"] for each in wires for call in each.get("toolCalls") or ())
    return ClientState(frozenset(each["id"] for each in wires), frozenset(calls), lambda: wires)


class ClientMessages:
    """held: what the client has. is_wrong: whether it has got what was told otherwise than it stands here."""

    def __init__(self, held: ClientState = NOTHING) -> None:
        self._held = held
        self._told: dict[str, Wire] = {}
        self._at: dict[str, int] = {}
        self._calls: dict[str, int] = {}
        self._gone: set[str] = set()
        self.is_wrong = False

    def holds(self, id_: str) -> bool:
        """Whether the client has something of that message."""
        return id_ in self._held.ids

    def holds_call(self, call_id: str) -> bool:
        """Whether the client has that call."""
        return call_id in self._held.calls

    def has_call(self, call_id: str) -> bool:
        """Whether that call was told, and stands."""
        return call_id in self._calls

    def is_open(self, call_id: str) -> bool:
        """Whether that call was told, and not what it gave."""
        return call_id in self._calls and result_id(call_id) not in self._told

    def say(self, event: Event, text: str, tag: str | None) -> None:
        """The event says that."""
        self._message(event, tag)["content"] = text

    def call(self, event: Event, part: ToolCallPart, tag: str | None) -> None:
        """The event makes that call."""
        made = {"id": part.call_id, "type": "function", "function": {"name": part.tool, "arguments": arguments_of(part)}}
        self._message(event, tag).setdefault("toolCalls", []).append(made)
        self._calls[part.call_id] = event.sequence or 0

    def result(self, event: Event, call_id: str, content: str, tag: str | None) -> None:
        """The event tells what that call gave."""
        told = {"id": result_id(call_id), "role": "tool", "toolCallId": call_id, "content": content}
        self._enter(event, {**told, **({} if tag is None else {"subagentRunId": tag})})

    def take_back(self, sequence: int) -> None:
        """What events said from that number on does not stand."""
        gone = [id_ for id_, at in self._at.items() if at >= sequence]
        for id_ in gone:
            del self._told[id_], self._at[id_]
        self._calls = {id_: at for id_, at in self._calls.items() if at < sequence}
        self.drop(gone)

    def drop(self, ids: Collection[str]) -> None:
        """These messages are not to be there."""
        self._gone |= set(ids)
        self.is_wrong |= bool(ids)

    def messages(self) -> list[Wire]:
        """All of them, in the client's order, then what is new."""
        told, kept = dict(self._told), [wire for wire in self._held.wires() if wire["id"] not in self._gone]
        return [*(told.pop(wire["id"], wire) for wire in kept), *told.values()]

    def take(self) -> list[Wire]:
        """What was told since it was asked for last."""
        told, self._told, self._at = list(self._told.values()), {}, {}
        return told

    def _message(self, event: Event, tag: str | None) -> Wire:
        if event.id not in self._told:
            blank = {"id": event.id, "role": "assistant", "name": event.author}
            self._enter(event, {**blank, **({} if tag is None else {"subagentRunId": tag})})
        return self._told[event.id]

    def _enter(self, event: Event, message: Wire) -> None:
        self._gone.discard(message["id"])
        self._told[message["id"]], self._at[message["id"]] = message, event.sequence or 0


def messages_in(events: Iterable[Event], view: Redactor) -> list[Wire]:
    """What a log tells its reader."""
    ledger, calls, messages = ClientMessages(), set[str](), list[Wire]()
    for event in events:
        shown = view.event(event)
        results = shown.content.tool_results if shown.content else ()
        if event.author == USER and shown.text:
            messages.append({"id": event.id, "role": "user", "content": shown.text})
        if text := shown_text(shown):
            ledger.say(shown, text, None)
        for part in shown.content.tool_calls if shown.content else ():
            if kind_of(part, shown) != "confirm":
                ledger.call(shown, part, None)
                calls.add(part.call_id)
        for result in results:
            if result.call_id in calls:
                ledger.result(shown, result.call_id, result_text(result.result), None)
        messages += ledger.take()
    return messages


def restored_messages(held: Sequence[Wire], log: Sequence[Wire]) -> list[Wire]:
    """The messages that a client has, with those of the log in place of its own of the same ids, and behind them what the log
    has after the last that they share; all of the log for a client that has none of it.
    """
    ids = {message.get("id") for message in held}
    shared = max((place for place, message in enumerate(log, 1) if message["id"] in ids), default=0)
    known = {message["id"]: message for message in log}
    own = [known.get(str(message.get("id")), message) for message in held]
    if shared or not held:
        return [*own, *log[shared:]]
    return own
