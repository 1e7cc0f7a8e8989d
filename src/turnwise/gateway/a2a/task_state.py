"""The recorded state of a task, computed from its events. Pure."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from a2a.types import TaskState

from turnwise.facts.content import Content
from turnwise.facts.events import USER, Event
from turnwise.facts.sessions import visible
from turnwise.facts.waits import Wait, open_waits, wait_opened_by
from turnwise.gateway.a2a.request import TaskId
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.threads import REFUSED, KnownMessage
from turnwise.gateway.shared.stream import COMPLETE_ENDS, is_shown_to_user, shown_text
from turnwise.runner.guards.guardrail_results import blocked_message
from turnwise.runner.record.events import origin_of

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
TaskStatus = Literal["queued", "running", "waiting", "ended", "cancelled", "rejected"]
_ALWAYS_COMPLETED = frozenset({"completed", "clarify"})


class TaskRecord(NamedTuple):
    """A task as it is recorded."""

    name: TaskId
    status: TaskStatus
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
