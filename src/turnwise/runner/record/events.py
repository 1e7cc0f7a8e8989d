"""Builds the runner's events, such as those that close an invocation, and reads messages and ids back from events."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.events import NO_BRANCH, USER, Branch, End, Event, StepRecord
from turnwise.facts.ids import Issuer
from turnwise.facts.messages import Message, OfferedTool
from turnwise.facts.sessions import Head, OpenCall, Session, SessionKey, fold
from turnwise.ports.stores import SessionStore
from turnwise.runner.record.journal import journal_of


def empty_event(issuer: Issuer, author: str, invocation_id: str, branch: Branch = NO_BRANCH) -> Event:
    """Returns an event without content or actions."""
    return Event(id=issuer.new_id("event"), author=author, invocation_id=invocation_id, created_at=issuer.now(), branch=branch)


def closing_events(
    issuer: Issuer, head: Head, invocation_id: str, author: str, end: End, *, steps: Iterable[StepRecord]
) -> list[Event]:
    """Returns the events that end an invocation: a result for each open tool call, and the end on the last event.

    Providers reject a history with open tool calls (behaviour A23).

    Args:
        author: The agent that had the turn.
        steps: The recorded steps of the invocation. A recorded call gets its result; any other call fails with the
            end's reason.
    """
    made: dict[str | None, Any] = {step.call: step.value for step in steps}
    events = [
        empty_event(issuer, call.agent, invocation_id, call.branch).with_content(
            _result(id_, call, made.get(id_, {"result": end.reason, "failed": True}))
        )
        for id_, call in head.calls.items()
        if call.invocation_id == invocation_id
    ]
    if not events or events[-1].is_private:
        # The end must be visible to all agents.
        events.append(empty_event(issuer, author, invocation_id))
    events[-1] = events[-1].with_actions(end=end)
    return events


def error_text(error: BaseException) -> str:
    """Returns the error's text with only storable characters; "" when the error has no text."""
    try:
        return str(error).encode(errors="backslashreplace").decode()
    except Exception:
        return ""


def session_after(session: Session, events: Sequence[Event]) -> Session:
    """Returns the session as it will be once these events are stored."""
    first = session.last_sequence + 1
    return fold(session, [event.replace(sequence=first + i) for i, event in enumerate(events)])


def _result(call_id: str, call: OpenCall, result: dict[str, Any]) -> Content:
    return Content(parts=(ToolResultPart(call_id=call_id, tool=call.tool, result=result["result"], failed=result["failed"]),))


class Origin(NamedTuple):
    """The message that a user event holds."""

    session: str
    """The id of the session that received the message."""
    message: str
    """The caller's id of the message."""

    @property
    def event_id(self) -> str:
        """The id of the user event. It is derived from the message, so the event can be found and is not stored twice.

        It includes the session, so the copied messages of a fork keep ids that differ from the fork's new messages.
        """
        return f"message:{quote(self.session, safe='')}:{self.message}"


def origin_of(event_id: str) -> Origin:
    """Returns the message that the user event with that id holds."""
    session, _, message = event_id.removeprefix("message:").partition(":")
    return Origin(unquote(session), message)


class EventIds:
    """Issues event ids, and replaces ids that did not come from here.

    The store ignores an event with an id that it has stored already, including its actions. An agent that emits a copied or
    repeated
    event therefore gets a new id for it.
    """

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer
        self._unused: set[str] = set()
        self._renamed: dict[str, str] = {}

    def issue(self) -> str:
        """Returns a new id for one event."""
        id_ = self._issuer.new_id("event")
        self._unused.add(id_)
        return id_

    def own(self, id_: str, *, partial: bool) -> str:
        """Returns the id if it was issued here and is unused, else a new one. Partial events share the id of their final
        event.
        """
        own = id_ if id_ in self._unused else self._renamed.get(id_)
        if own is None:
            own = self._renamed[id_] = self.issue()
        if not partial:
            self._unused.discard(own)
            self._renamed.pop(id_, None)
        return own


async def message_of_event(store: SessionStore, key: SessionKey, event: Event) -> Message:
    """Returns the message with its original context and configuration, and its content as answered.

    In a fork, the event's id names the session that received the message.
    """
    origin = origin_of(event.id)
    receipt = await store.inbox.receipt(key._replace(id=origin.session), origin.message)
    content = event.content or Content()
    if receipt is None:
        return Message(id=origin.message, content=content)
    return receipt.message.replace(content=content)


async def tools_offered_to(store: SessionStore, key: SessionKey, events: Iterable[Event]) -> tuple[OfferedTool, ...]:
    """Returns the tools that the caller offered with the invocation's first message.

    They apply to the whole invocation; tools of later messages do not.
    """
    first = next((event for event in events if event.author == USER and event.content is not None), None)
    return () if first is None else (await message_of_event(store, key, first)).context.tools


def revision_of(events: Iterable[Event]) -> int:
    """Returns the revision of the agents that an invocation began with, from its events; 0 for agents of code only."""
    selections = (event.actions.selection for event in events if event.author == USER)
    first = next((selection for selection in selections if selection is not None), None)
    return 0 if first is None else first.revision


async def steps_of(store: SessionStore, session: Session, invocation_id: str) -> Iterable[StepRecord]:
    """Returns the recorded steps that the end of the invocation needs: none unless a tool call of it is open."""
    if not any(call.invocation_id == invocation_id for call in session.head.calls.values()):
        return ()
    return journal_of(await store.events(session.key, invocation_id=invocation_id)).steps.values()
