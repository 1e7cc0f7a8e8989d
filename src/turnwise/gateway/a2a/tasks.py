"""A task as the protocol has it. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from a2a.types import Artifact, Message, Part, Role, Task, TaskState, TaskStatus, TaskStatusUpdateEvent
from google.protobuf.timestamp_pb2 import Timestamp

from turnwise.facts.events import USER, Event
from turnwise.gateway.a2a.json_values import data_part, json_object
from turnwise.gateway.a2a.parts import TEXT_TYPE, PartWriter
from turnwise.gateway.a2a.task_state import CANCELLED, TaskRecord, blocked_answer, is_output, is_question
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.utterances import failure_text
from turnwise.gateway.shared.waits import OpenWait
from turnwise.runner.record.events import origin_of

METADATA_KEY = "turnwise"
"""What of the metadata is ours."""
MOST_HISTORY = 100
"""How many messages a task shows when it is not said how many are wanted."""


def task_of(
    record: TaskRecord, view: Redactor, shown: PartWriter, *, history: int | None = None, artifacts: bool = True
) -> Task:
    """The task as it is. history: how many messages are wanted at most, the newest; None = `MOST_HISTORY`."""
    outputs = [artifact_of(event, parts) for event in record.events if (parts := _output(event, shown))] if artifacts else []
    return Task(
        id=record.name.id,
        context_id=record.name.session,
        status=_status(record, view, shown),
        artifacts=outputs,
        history=_history(record, view, shown, MOST_HISTORY if history is None else history),
        metadata=json_object({METADATA_KEY: decision_metadata(record, view)}),
    )


def update_of(record: TaskRecord, view: Redactor, shown: PartWriter) -> TaskStatusUpdateEvent:
    """That it stands so now."""
    status, known = _status(record, view, shown), json_object({METADATA_KEY: decision_metadata(record, view)})
    return TaskStatusUpdateEvent(task_id=record.name.id, context_id=record.name.session, status=status, metadata=known)


def artifact_of(event: Event, parts: Sequence[Part]) -> Artifact:
    """What an agent said in that event."""
    known: dict[str, Any] = {"agent": event.author, "sequence": event.sequence}
    return Artifact(artifact_id=event.id, name=event.author, parts=parts, metadata=json_object({METADATA_KEY: known}))


def answer_of(record: TaskRecord, shown: PartWriter) -> Message:
    """All that was said, as one message without a task."""
    parts = [part for event in record.events for part in _output(event, shown)]
    return Message(message_id=_status_id(record), context_id=record.name.session, role=Role.ROLE_AGENT, parts=parts)


def decision_metadata(record: TaskRecord, view: Redactor) -> dict[str, Any]:
    """Where it is on record, and what of the decision the reader may see."""
    known: dict[str, Any] = {"sessionId": record.name.session, "messageId": record.name.message}
    if record.events:
        known["invocationId"] = record.events[0].invocation_id
    selection = next((e.actions.selection for e in record.events if e.author == USER and e.actions.selection), None)
    if selection is not None:
        seen = view.selection(selection)
        known |= {"agent": seen.agent, "method": seen.method, "reason": seen.reason}
    return known | ({"end": record.end} if record.end else {})


def _status(record: TaskRecord, view: Redactor, shown: PartWriter) -> TaskStatus:
    """How it stands, since when, and what is to be said of that."""
    state = record.state(view)
    words = _status_parts(record, view, shown, state)
    status = TaskStatus(state=state, timestamp=_timestamp(_status_time(record)))
    if words:
        status.message.CopyFrom(_message(record, _status_id(record), Role.ROLE_AGENT, words))
    return status


def _output(event: Event, shown: PartWriter) -> list[Part]:
    return shown.of(event) if is_output(event) else []


def _status_parts(record: TaskRecord, view: Redactor, shown: PartWriter, state: TaskState) -> list[Part]:
    """What is to be said of the state."""
    if state == TaskState.TASK_STATE_INPUT_REQUIRED:
        return list(_wait_parts(record.waits(view), shown))
    if record.problem:
        return [Part(text=record.problem, media_type=TEXT_TYPE)]
    if state == TaskState.TASK_STATE_REJECTED and (blocked := blocked_answer(record.events)) is not None:
        return shown.of(blocked)
    if state in (TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_REJECTED, TaskState.TASK_STATE_CANCELED):
        error = next((event.error for event in reversed(record.events) if event.error), None)
        return [Part(text=failure_text(record.end or CANCELLED, error, view), media_type=TEXT_TYPE)]
    return []


def _wait_parts(waits: Sequence[OpenWait], shown: PartWriter) -> Iterator[Part]:
    """The questions, and as data what answers are waited for."""
    for wait in waits:
        if is_question(wait.event):
            yield from shown.of(wait.event)
        else:
            yield Part(text=f"Waiting for the result of {wait.call.tool if wait.call else 'a tool'}.", media_type=TEXT_TYPE)
    yield data_part({"waits": [_wait(wait) for wait in waits]})


def _wait(wait: OpenWait) -> dict[str, Any]:
    called = {"tool": wait.call.tool, "arguments": wait.call.arguments} if wait.call else {}
    return {"callId": wait.awaited.id, "kind": wait.kind, "agent": wait.event.author, **called}


def _history(record: TaskRecord, view: Redactor, shown: PartWriter, most: int) -> list[Message]:
    """What was sent, and what was asked but for what still is. The newest, oldest first."""
    if record.asked is not None and most > 0:
        return [_message(record, record.name.message, Role.ROLE_USER, shown.parts(record.asked, results=True))]
    open_ = {wait.event.id for wait in record.waits(view)}
    told = [event for event in record.events if event.author == USER or (is_question(event) and event.id not in open_)]
    messages = (_history_message(record, event, shown) for event in told[-most:] if event.content) if most > 0 else ()
    return [message for message in messages if message.parts]


def _history_message(record: TaskRecord, event: Event, shown: PartWriter) -> Message:
    if event.author != USER:
        return _message(record, event.id, Role.ROLE_AGENT, shown.of(event))
    return _message(record, origin_of(event.id).message, Role.ROLE_USER, shown.of(event))


def _message(record: TaskRecord, id_: str, role: Role, parts: Sequence[Part]) -> Message:
    return Message(message_id=id_, context_id=record.name.session, task_id=record.name.id, role=role, parts=parts)


def _status_id(record: TaskRecord) -> str:
    return record.events[-1].id if record.events else f"{record.name.id}-status"


def _status_time(record: TaskRecord) -> datetime | None:
    """Since when it stands as it does."""
    if not record.events:
        return None
    last = next(
        (e for e in reversed(record.events) if e.author == USER or e.actions.end or e.actions.awaits), record.events[-1]
    )
    return last.created_at


def _timestamp(time: datetime | None) -> Timestamp | None:
    if time is None:
        return None
    stamp = Timestamp()
    stamp.FromMilliseconds(int(time.timestamp() * 1000))
    return stamp
