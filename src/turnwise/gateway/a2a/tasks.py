"""Tasks: the recorded state, computed from events, the lookup by id, and the protocol's Task, status updates and artifacts."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from a2a.types import Artifact, Message, Part, Role, Task, TaskState, TaskStatus, TaskStatusUpdateEvent
from a2a.utils.errors import TaskNotFoundError
from google.protobuf.timestamp_pb2 import Timestamp

from turnwise.facts.callers import Permission
from turnwise.facts.content import Content
from turnwise.facts.errors import ArtifactError, Forbidden, InvocationMissing, NothingHere, SessionMissing
from turnwise.facts.events import USER, Event
from turnwise.facts.sessions import visible
from turnwise.facts.waits import Wait, open_waits, wait_opened_by
from turnwise.gateway.a2a.messages import (
    MOST_INLINE,
    TEXT_TYPE,
    File,
    FileId,
    PartWriter,
    data_part,
    json_object,
    referenced_files,
)
from turnwise.gateway.a2a.request import OperationRequest, TaskId, parse_task_id
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services import Services
from turnwise.gateway.services.threads import REFUSED, KnownMessage
from turnwise.gateway.shared.stream import COMPLETE_ENDS, failure_text, is_shown_to_user, shown_text
from turnwise.runner.guardrail_results import blocked_message
from turnwise.runner.record.events import origin_of
from turnwise.wire.messages import SEGMENT

CANCELLED = "cancelled"
FINAL_STATES = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
"""States in which a task is over."""
RecordStatus = Literal["queued", "running", "waiting", "ended", "cancelled", "rejected"]
_ALWAYS_COMPLETED = frozenset({"completed", "clarify"})


class TaskRecord(NamedTuple):
    """A task as it is recorded."""

    name: TaskId
    status: RecordStatus
    """Where the task's invocation or queued message stands."""
    events: Sequence[Event] = ()
    """All visible events of its invocation, without retracted ones."""
    first_message: Content | None = None
    """Its first message, until the events contain it."""
    problem: str = ""
    """Why the task was rejected."""

    @property
    def end_reason(self) -> str:
        """The reason of its end; empty while it has not ended."""
        return next((event.actions.end.reason for event in reversed(self.events) if event.actions.end), "")

    @property
    def last_message(self) -> str:
        """The id of its last message."""
        return next((origin_of(event.id).message for event in reversed(self.events) if _is_message(event)), self.name.message)

    def first_message_after(self, earlier: "TaskRecord") -> str:
        """Returns the id of the first message that `earlier` lacks; empty if there is none."""
        new = (
            event for event in self.events if _is_message(event) and (event.sequence or 0) > (earlier.events[-1].sequence or 0)
        )
        return next((origin_of(event.id).message for event in new), "")

    def before(self, message: str) -> Sequence[Event]:
        """Returns the events before this message of the task."""
        indexes = (
            index for index, event in enumerate(self.events) if _is_message(event) and origin_of(event.id).message == message
        )
        return self.events[: next(indexes, 0)]

    def waits(self, view: Redactor) -> list[Wait]:
        """Returns the open waits that the reader may answer, oldest first."""
        return [wait for wait in open_waits(self.events) if view.answers(wait.call)] if self.status == "waiting" else []

    def state(self, view: Redactor) -> TaskState:
        """Returns the protocol state for this reader. A task that waits for somebody else counts as working."""
        if self.status == "waiting":
            return TaskState.TASK_STATE_INPUT_REQUIRED if self.waits(view) else TaskState.TASK_STATE_WORKING
        return _state_at(self.end_reason, self.events) if self.status == "ended" else _STATES[self.status]


_STATES = {
    "queued": TaskState.TASK_STATE_SUBMITTED,
    "running": TaskState.TASK_STATE_WORKING,
    "cancelled": TaskState.TASK_STATE_CANCELED,
    "rejected": TaskState.TASK_STATE_REJECTED,
}


def task_record(name: TaskId, known: KnownMessage) -> TaskRecord:
    """Builds the record of a task from its first message."""
    receipt, reading, _ = known
    if reading is not None and reading.result is not None:
        return TaskRecord(name, reading.state, reading.result.events)
    first_message = receipt.message.content
    if (blocked := blocked_message(receipt.message.guarded)) is not None:
        return TaskRecord(name, "rejected", problem=str(blocked))
    if receipt.state == REFUSED and receipt.problem == CANCELLED:
        return TaskRecord(name, "cancelled", first_message=first_message)
    if receipt.state == REFUSED:
        return TaskRecord(name, "rejected", first_message=first_message, problem="The message was refused.")
    return TaskRecord(name, "queued", first_message=first_message)


def live_task_record(
    name: TaskId, events: Sequence[Event], first_message: Content | None = None, *, begun: bool, closed: bool
) -> TaskRecord:
    """Builds the record of a task from the events that a stream delivered.

    Args:
        begun: Whether the invocation has started.
        closed: Whether the stream has ended.
    """
    shown = visible(events)
    if any(event.actions.end for event in shown):
        return TaskRecord(name, "ended", shown)
    if not shown:
        return TaskRecord(name, "cancelled" if closed else "running" if begun else "queued", first_message=first_message)
    return TaskRecord(name, "waiting" if closed else "running", shown)


def is_question(event: Event) -> bool:
    """Returns whether the event asks the user something in text: for a reply, or for an approval."""
    wait = wait_opened_by(event)
    return wait is not None and wait.kind != "tool_result"


def is_output(event: Event) -> bool:
    """Returns whether the event's text belongs to the task's artifacts. Questions and guardrail explanations do not."""
    return event.author != USER and is_shown_to_user(event) and not is_question(event) and not event.actions.blocked_by


def _is_message(event: Event) -> bool:
    return event.author == USER and event.content is not None


def blocked_answer(events: Sequence[Event]) -> Event | None:
    """Returns the last shown event if it explains why a guardrail blocked the answer."""
    last = next((event for event in reversed(events) if shown_text(event)), None)
    return last if last is not None and last.actions.blocked_by else None


def _state_at(reason: str, events: Sequence[Event]) -> TaskState:
    if reason == "blocked" or (reason in COMPLETE_ENDS and blocked_answer(events) is not None):
        return TaskState.TASK_STATE_REJECTED
    if reason in _ALWAYS_COMPLETED or (reason in COMPLETE_ENDS and any(map(shown_text, events))):
        return TaskState.TASK_STATE_COMPLETED
    return TaskState.TASK_STATE_CANCELED if reason == CANCELLED else TaskState.TASK_STATE_FAILED


MOST_FILES = 50
"""Maximum number of artifacts loaded for one response; further ones appear by name only."""


async def find_task(operation: OperationRequest, task_id: str, *, to: Permission = "sessions:read") -> TaskRecord:
    """Returns the task with this id.

    Args:
        to: The permission that the caller needs.

    Raises:
        TaskNotFoundError: There is no such task, or it belongs to another user.
        Forbidden: The caller lacks the permission. Raised whether or not the task exists.
    """
    name = parse_task_id(task_id)
    try:
        if name is None:
            operation.services.scope.require(to)
            raise InvocationMissing("This is not a task id.")
        if None not in (operation.user, name.user) and operation.user != name.user:
            operation.services.scope.user(to)
            raise InvocationMissing("The task belongs to another user than the request names.")
        known = await services_of_task(operation, name).threads.whole(name.session, name.message, to=to)
    except (InvocationMissing, SessionMissing):
        raise TaskNotFoundError("There is no such task.") from None
    except Forbidden:
        # Do not reveal that a task of another user exists to a caller who may not reach it.
        if operation.user is None and name is not None and name.user is not None:
            operation.services.scope.require(to)
            raise TaskNotFoundError("There is no such task.") from None
        raise
    return task_record(name, known)


def user_of_task(operation: OperationRequest, name: TaskId) -> str | None:
    """Returns the user that the request names, else the one in the task's id; None = the caller's own user."""
    return name.user if operation.user is None else operation.user


def services_of_task(operation: OperationRequest, name: TaskId) -> Services:
    """Returns the services for the task's user."""
    return operation.services.for_user(user_of_task(operation, name))


async def files_of(
    operation: OperationRequest, name: TaskId, events: Iterable[Event], inline: int = MOST_INLINE
) -> Mapping[FileId, File]:
    """Loads the artifacts that these events refer to; missing ones are left out.

    At most `inline` bytes are included; files beyond it have a URL only.
    """
    files: dict[FileId, File] = {}
    bytes_left, artifacts = inline, services_of_task(operation, name).artifacts
    for id_ in referenced_files(events)[:MOST_FILES]:
        artifact, version = id_
        try:
            infos = await artifacts.versions(name.session, artifact)
            info = next(candidate for candidate in reversed(infos) if version in (None, candidate.version))
            url = _url(operation, name, artifact, info.version)
            files[id_] = File(url, info.mime_type)
            if info.size <= bytes_left:
                loaded = await artifacts.load(name.session, artifact, info.version)
                files[id_], bytes_left = File(url, info.mime_type, loaded.data), bytes_left - info.size
        except (ArtifactError, NothingHere, SessionMissing, Forbidden, StopIteration):
            continue
    return files


def _url(operation: OperationRequest, name: TaskId, artifact: str, version: int) -> str:
    """Returns the artifact's URL in the Turnwise API, which requires the same credential. Empty if the session id cannot be a
    path segment.
    """
    if not re.fullmatch(SEGMENT, name.session):
        return ""
    user = user_of_task(operation, name)
    user_query = f"&user={quote(user, safe='')}" if user is not None else ""
    path = f"sessions/{quote(name.session, safe='')}/artifacts/{quote(artifact, safe='')}"
    return f"{operation.base}/api/v1/{path}?version={version}{user_query}"


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
