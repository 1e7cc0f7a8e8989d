"""How an invocation is closed on record, so that nothing of it stays open. Pure, but for the ids."""

from collections.abc import Iterable, Sequence
from typing import Any

from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.events import End, Event, StepRecord
from turnwise.facts.ids import Issuer
from turnwise.facts.sessions import Head, OpenCall, Session, fold


def bare_event(issuer: Issuer, author: str, invocation_id: str, branch: str = "") -> Event:
    """An event that says nothing yet."""
    return Event(id=issuer.new_id("event"), author=author, invocation_id=invocation_id, created_at=issuer.now(), branch=branch)


def acting(event: Event, **actions: object) -> Event:
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
        bare_event(issuer, call.agent, invocation_id, call.branch).model_copy(
            update={"content": _result(id_, call, made.get(id_, {"result": end.reason, "failed": True}))}
        )
        for id_, call in head.calls.items()
        if call.invocation_id == invocation_id
    ]
    if not events or events[-1].is_private:
        # An end is everybody's to see.
        events.append(bare_event(issuer, author, invocation_id))
    events[-1] = acting(events[-1], end=end)
    return events


def told(error: BaseException) -> str:
    """What an error says, in characters that can be stored; "" when it cannot even say it."""
    try:
        return str(error).encode(errors="backslashreplace").decode()
    except Exception:
        return ""


def after(session: Session, events: Sequence[Event]) -> Session:
    """The session as it will be when these events are stored."""
    first = session.last_sequence + 1
    return fold(session, [event.model_copy(update={"sequence": first + i}) for i, event in enumerate(events)])


def _result(call_id: str, call: OpenCall, told: dict[str, Any]) -> Content:
    return Content(parts=(ToolResultPart(call_id=call_id, tool=call.tool, result=told["result"], failed=told["failed"]),))
