"""How an invocation is closed on record, so that nothing of it stays open. Pure, but for the ids."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.events import USER, End, Event, StepRecord
from turnwise.facts.ids import Issuer
from turnwise.facts.messages import Message, OfferedTool
from turnwise.facts.sessions import Head, OpenCall, Session, SessionKey, fold
from turnwise.ports.stores import SessionStore
from turnwise.runner.record.journal import journal_of


def empty_event(issuer: Issuer, author: str, invocation_id: str, branch: str = "") -> Event:
    """An event that says nothing yet."""
    return Event(id=issuer.new_id("event"), author=author, invocation_id=invocation_id, created_at=issuer.now(), branch=branch)


def with_actions(event: Event, **actions: object) -> Event:
    """The event with these actions in place of its own."""
    return event.model_copy(update={"actions": event.actions.model_copy(update=actions)})


def closing_events(
    issuer: Issuer, head: Head, invocation_id: str, author: str, end: End, *, steps: Iterable[StepRecord]
) -> list[Event]:
    """What ends an invocation: a result for each of its open tool calls, so that the history stays valid for every
    provider (behaviour A23), and the end on the last event. `author` is who held the floor.

    steps: what the invocation has on record. A call that was made has its result there; of others it is the end's reason.
    """
    made: dict[str | None, Any] = {step.call: step.value for step in steps}
    events = [
        empty_event(issuer, call.agent, invocation_id, call.branch).model_copy(
            update={"content": _result(id_, call, made.get(id_, {"result": end.reason, "failed": True}))}
        )
        for id_, call in head.calls.items()
        if call.invocation_id == invocation_id
    ]
    if not events or events[-1].is_private:
        # An end is everybody's to see.
        events.append(empty_event(issuer, author, invocation_id))
    events[-1] = with_actions(events[-1], end=end)
    return events


def error_text(error: BaseException) -> str:
    """What an error says, in characters that can be stored; "" when it cannot even say it."""
    try:
        return str(error).encode(errors="backslashreplace").decode()
    except Exception:
        return ""


def session_after(session: Session, events: Sequence[Event]) -> Session:
    """The session as it will be when these events are stored."""
    first = session.last_sequence + 1
    return fold(session, [event.model_copy(update={"sequence": first + i}) for i, event in enumerate(events)])


def _result(call_id: str, call: OpenCall, result: dict[str, Any]) -> Content:
    return Content(parts=(ToolResultPart(call_id=call_id, tool=call.tool, result=result["result"], failed=result["failed"]),))


class Origin(NamedTuple):
    """Which message a user event holds: the session's id it came to, and the caller's id."""

    session: str
    message: str

    @property
    def event_id(self) -> str:
        """The id of the user event, so that it is found by its message, and cannot be stored twice.

        The session is part of it: a fork's copied messages do not take the ids of its own.
        """
        return f"message:{quote(self.session, safe='')}:{self.message}"


def origin_of(event_id: str) -> Origin:
    """The message that the user event of that id holds."""
    session, _, message = event_id.removeprefix("message:").partition(":")
    return Origin(unquote(session), message)


class EventIds:
    """Issues ids, and replaces those that agents bring along.

    The store leaves an event out whose id it knows, and with it whatever the event does, such as ending the invocation. So
    an event that was said before, comes from the history, or was made elsewhere gets a new id.
    """

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer
        self._unused: set[str] = set()
        self._renamed: dict[str, str] = {}

    def issue(self) -> str:
        """An id for one event."""
        id_ = self._issuer.new_id("event")
        self._unused.add(id_)
        return id_

    def own(self, id_: str, *, partial: bool) -> str:
        """The id, if it was issued here and not used yet, else a new one. Partial events share it with the final one."""
        own = id_ if id_ in self._unused else self._renamed.get(id_)
        if own is None:
            own = self._renamed[id_] = self.issue()
        if not partial:
            self._unused.discard(own)
            self._renamed.pop(id_, None)
        return own


async def message_of_event(store: SessionStore, key: SessionKey, event: Event) -> Message:
    """The message with the context and configuration it came with, its content as it was answered.

    A fork's copied messages came to the session that their events' ids name.
    """
    origin = origin_of(event.id)
    receipt = await store.inbox.receipt(key._replace(id=origin.session), origin.message)
    content = event.content or Content()
    if receipt is None:
        return Message(id=origin.message, content=content)
    return receipt.message.model_copy(update={"content": content})


async def tools_offered_to(store: SessionStore, key: SessionKey, events: Iterable[Event]) -> tuple[OfferedTool, ...]:
    """What the caller offered with the message that began the invocation of these events: it counts in all of it, whatever
    comes with the messages that it goes on with.
    """
    first = next((event for event in events if event.author == USER and event.content is not None), None)
    return () if first is None else (await message_of_event(store, key, first)).context.tools


async def steps_of(store: SessionStore, session: Session, invocation_id: str) -> Iterable[StepRecord]:
    """The recorded steps of the session's invocation, as far as its end needs them: none are read when no tool call of it
    is open.
    """
    if not any(call.invocation_id == invocation_id for call in session.head.calls.values()):
        return ()
    return journal_of(await store.events(session.key, invocation_id=invocation_id)).steps.values()
