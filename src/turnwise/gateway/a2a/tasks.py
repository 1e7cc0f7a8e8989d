"""Builds the protocol's Task, status updates and artifacts from a task record. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from a2a.types import Artifact, Message, Part, Role, Task, TaskState, TaskStatus, TaskStatusUpdateEvent
from google.protobuf.timestamp_pb2 import Timestamp

from turnwise.facts.events import USER, Event
from turnwise.facts.waits import Wait
from turnwise.gateway.a2a.json_values import data_part, json_object
from turnwise.gateway.a2a.parts import TEXT_TYPE, PartWriter
from turnwise.gateway.a2a.task_state import CANCELLED, TaskRecord, blocked_answer, is_output, is_question
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.stream import failure_text
from turnwise.runner.record.events import origin_of

METADATA_KEY = "turnwise"
"""The metadata key of Turnwise's own fields."""
MOST_HISTORY = 100
"""History messages of a task if the request does not name a number."""


def task_of(
    record: TaskRecord, view: Redactor, writer: PartWriter, *, history: int | None = None, artifacts: bool = True
) -> Task:
    """Builds the task. history: maximum number of messages, newest kept; None = `MOST_HISTORY`."""
    outputs = [artifact_of(event, parts) for event in record.events if (parts := _output(event, writer))] if artifacts else []
    return Task(
        id=record.name.id,
        context_id=record.name.session,
        status=_status(record, view, writer),
        artifacts=outputs,
        history=_history(record, view, writer, MOST_HISTORY if history is None else history),
        metadata=json_object({METADATA_KEY: decision_metadata(record, view)}),
    )


def update_of(record: TaskRecord, view: Redactor, writer: PartWriter) -> TaskStatusUpdateEvent:
    """Builds a status update for the task's current state."""
    status, metadata = _status(record, view, writer), json_object({METADATA_KEY: decision_metadata(record, view)})
    return TaskStatusUpdateEvent(task_id=record.name.id, context_id=record.name.session, status=status, metadata=metadata)


def artifact_of(event: Event, parts: Sequence[Part]) -> Artifact:
    """Builds the artifact for an agent's event. The artifact id is the event id."""
    metadata: dict[str, Any] = {"agent": event.author, "sequence": event.sequence}
    return Artifact(artifact_id=event.id, name=event.author, parts=parts, metadata=json_object({METADATA_KEY: metadata}))


def answer_of(record: TaskRecord, writer: PartWriter) -> Message:
    """Builds one message from all outputs, for an agent that answers without a task."""
    parts = [part for event in record.events for part in _output(event, writer)]
    return Message(message_id=_status_id(record), context_id=record.name.session, role=Role.ROLE_AGENT, parts=parts)


def decision_metadata(record: TaskRecord, view: Redactor) -> dict[str, Any]:
    """Returns the task's ids in Turnwise and the visible part of the selection."""
    metadata: dict[str, Any] = {"sessionId": record.name.session, "messageId": record.name.message}
    if record.events:
        metadata["invocationId"] = record.events[0].invocation_id
    selection = next((e.actions.selection for e in record.events if e.author == USER and e.actions.selection), None)
    if selection is not None:
        seen = view.selection(selection)
        metadata |= {"agent": seen.agent, "method": seen.method, "reason": seen.reason}
    return metadata | ({"end": record.end_reason} if record.end_reason else {})


def _status(record: TaskRecord, view: Redactor, writer: PartWriter) -> TaskStatus:
    """Builds the state, its timestamp, and the message that explains it."""
    state = record.state(view)
    parts = _status_parts(record, view, writer, state)
    status = TaskStatus(state=state, timestamp=_timestamp(_status_time(record)))
    if parts:
        status.message.CopyFrom(_message(record, _status_id(record), Role.ROLE_AGENT, parts))
    return status


def _output(event: Event, writer: PartWriter) -> list[Part]:
    return writer.of(event) if is_output(event) else []


def _status_parts(record: TaskRecord, view: Redactor, writer: PartWriter, state: TaskState) -> list[Part]:
    """Returns the text that explains the state, if it needs one."""
    if state == TaskState.TASK_STATE_INPUT_REQUIRED:
        return list(_wait_parts(record.waits(view), writer))
    if record.problem:
        return [Part(text=record.problem, media_type=TEXT_TYPE)]
    if state == TaskState.TASK_STATE_REJECTED and (blocked := blocked_answer(record.events)) is not None:
        return writer.of(blocked)
    if state in (TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_REJECTED, TaskState.TASK_STATE_CANCELED):
        error = next((event.error for event in reversed(record.events) if event.error), None)
        return [Part(text=failure_text(record.end_reason or CANCELLED, error, view), media_type=TEXT_TYPE)]
    return []


def _wait_parts(waits: Sequence[Wait], writer: PartWriter) -> Iterator[Part]:
    """Yields the open questions, then a data part that lists the waits."""
    for wait in waits:
        if wait.event is not None and is_question(wait.event):
            yield from writer.of(wait.event)
        else:
            yield Part(text=f"Waiting for the result of {wait.tool or 'a tool'}.", media_type=TEXT_TYPE)
    yield data_part({"waits": [_wait(wait) for wait in waits]})


def _wait(wait: Wait) -> dict[str, Any]:
    call_fields = {"tool": wait.call.tool, "arguments": wait.call.arguments} if wait.call else {}
    return {"callId": wait.id, "kind": wait.kind, "agent": wait.agent, **call_fields}


def _history(record: TaskRecord, view: Redactor, writer: PartWriter, most: int) -> list[Message]:
    """Returns the newest messages, oldest first: the user's, and questions that are no longer open."""
    if record.first_message is not None and most > 0:
        return [_message(record, record.name.message, Role.ROLE_USER, writer.parts(record.first_message, results=True))]
    open_ = {wait.event.id for wait in record.waits(view) if wait.event}
    events = [event for event in record.events if event.author == USER or (is_question(event) and event.id not in open_)]
    messages = (_history_message(record, event, writer) for event in events[-most:] if event.content) if most > 0 else ()
    return [message for message in messages if message.parts]


def _history_message(record: TaskRecord, event: Event, writer: PartWriter) -> Message:
    if event.author != USER:
        return _message(record, event.id, Role.ROLE_AGENT, writer.of(event))
    return _message(record, origin_of(event.id).message, Role.ROLE_USER, writer.of(event))


def _message(record: TaskRecord, id_: str, role: Role, parts: Sequence[Part]) -> Message:
    return Message(message_id=id_, context_id=record.name.session, task_id=record.name.id, role=role, parts=parts)


def _status_id(record: TaskRecord) -> str:
    return record.events[-1].id if record.events else f"{record.name.id}-status"


def _status_time(record: TaskRecord) -> datetime | None:
    """Returns when the current state began."""
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
