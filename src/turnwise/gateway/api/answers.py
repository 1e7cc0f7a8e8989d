"""Builds the `Answer` of a message: its state, text, open waits, error and selection."""

from collections.abc import Sequence

from turnwise.facts.events import Event
from turnwise.facts.fact import replaced
from turnwise.facts.waits import Wait, open_waits
from turnwise.gateway.redaction import Redactor
from turnwise.runner import Invocation, InvocationStatus, Result
from turnwise.wire.messages import Answer, OpenCall


def answer_of(invocation: Invocation, result: Result, view: Redactor) -> Answer:
    """Returns the answer to the invocation's message, reduced to the fields that the caller may see."""
    answer = Answer(
        session_id=invocation.session.id,
        message_id=invocation.message_id,
        invocation_id=result.invocation_id or None,
        state="waiting" if result.waiting else "ended",
        waits=open_waits_of(result.events, view) if result.waiting else [],
    )
    return _with_result(answer, result, view)


def read_answer(session: str, reading: InvocationStatus, view: Redactor) -> Answer:
    """Returns the answer that the log holds now; without a text while the message is queued."""
    result = reading.result
    answer = Answer(session_id=session, message_id=reading.message_id, invocation_id=None, state=reading.state)
    if result is None:
        return answer
    waits = [each for each in open_waits_of(result.events, view) if each.call_id in reading.waits]
    return _with_result(replaced(answer, invocation_id=result.invocation_id, waits=waits), result, view)


def pending(invocation: Invocation) -> Answer:
    """Returns the answer to a message that was accepted and is not answered yet."""
    return Answer(
        session_id=invocation.session.id, message_id=invocation.message_id, invocation_id=invocation.id, state="running"
    )


def open_waits_of(events: Sequence[Event], view: Redactor) -> list[OpenCall]:
    """Returns the open waits in the events of one invocation, oldest first.

    A wait that the caller may not answer is listed without its arguments.
    """
    return [_open_call(wait, view) for wait in open_waits(events)]


def _with_result(answer: Answer, result: Result, view: Redactor) -> Answer:
    """Returns the answer with the result's text, end, error and selection, as far as the caller may see them."""
    return replaced(
        answer,
        text=result.text,
        end=view.end(result.end) if result.end else None,
        error=view.error(result.error) if result.error else None,
        selection=view.selection(result.selection) if result.selection else None,
    )


def _open_call(wait: Wait, view: Redactor) -> OpenCall:
    """Returns a wait as the API shows it; its arguments only to callers that may answer it."""
    return OpenCall(
        invocation_id=wait.invocation_id,
        call_id=wait.id,
        kind=wait.kind,
        agent=wait.agent,
        tool=wait.tool,
        arguments=wait.call.arguments if wait.call and view.answers(wait.call) else {},
        text=wait.text,
    )
