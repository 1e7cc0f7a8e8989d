"""What is on record of a task. Pure."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from a2a.types import TaskState

from turnwise.facts.content import Content
from turnwise.facts.events import USER, Event
from turnwise.facts.sessions import visible
from turnwise.gateway.a2a.ids import TaskId
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.threads import REFUSED, KnownMessage
from turnwise.gateway.shared.utterances import COMPLETE_ENDS, is_shown_to_user, shown_text
from turnwise.gateway.shared.waits import OpenWait, open_waits
from turnwise.runner.guards.guardrail_results import blocked_message
from turnwise.runner.record.events import origin_of
from turnwise.transcript.visible import question_of

CANCELLED = "cancelled"
OVER = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
Standing = Literal["queued", "running", "waiting", "ended", "cancelled", "rejected"]
_ALWAYS_GOOD = frozenset({"completed", "clarify"})


class TaskRecord(NamedTuple):
    """A task. events: all of its invocation, as they may be read by everybody, without what was taken back. asked: its first
    message, as long as it is not among them. problem: why it was rejected.
    """

    name: TaskId
    standing: Standing
    events: Sequence[Event] = ()
    asked: Content | None = None
    problem: str = ""

    @property
    def end(self) -> str:
        """The reason of its end; empty when it has not ended."""
        return next((event.actions.end.reason for event in reversed(self.events) if event.actions.end), "")

    @property
    def last_message(self) -> str:
        """The id of the last message of it."""
        return next((origin_of(each.id).message for each in reversed(self.events) if _is_message(each)), self.name.message)

    def first_message_after(self, told: "TaskRecord") -> str:
        """The id of the first message that is not on that record yet; empty when there is none."""
        new = (each for each in self.events if _is_message(each) and (each.sequence or 0) > (told.events[-1].sequence or 0))
        return next((origin_of(each.id).message for each in new), "")

    def before(self, message: str) -> Sequence[Event]:
        """What was on record before that message of it."""
        places = (
            place for place, each in enumerate(self.events) if _is_message(each) and origin_of(each.id).message == message
        )
        return self.events[: next(places, 0)]

    def waits(self, view: Redactor) -> list[OpenWait]:
        """What it waits for that is the reader's to give, oldest first."""
        return [wait for wait in open_waits(self.events) if wait.is_for(view)] if self.standing == "waiting" else []

    def state(self, view: Redactor) -> TaskState:
        """Its state, as the reader has to go by it: what waits for others than him is at work."""
        if self.standing == "waiting":
            return TaskState.TASK_STATE_INPUT_REQUIRED if self.waits(view) else TaskState.TASK_STATE_WORKING
        return _state_at(self.end, self.events) if self.standing == "ended" else _STATES[self.standing]


_STATES = {
    "queued": TaskState.TASK_STATE_SUBMITTED,
    "running": TaskState.TASK_STATE_WORKING,
    "cancelled": TaskState.TASK_STATE_CANCELED,
    "rejected": TaskState.TASK_STATE_REJECTED,
}


def task_record(name: TaskId, known: KnownMessage) -> TaskRecord:
    """The task as it is known by its first message."""
    receipt, reading, _ = known
    if reading is not None and reading.result is not None:
        return TaskRecord(name, reading.state, reading.result.events)
    asked = receipt.message.content
    if (blocked := blocked_message(receipt.message.guarded)) is not None:
        return TaskRecord(name, "rejected", problem=str(blocked))
    if receipt.state == REFUSED and receipt.problem == CANCELLED:
        return TaskRecord(name, "cancelled", asked=asked)
    if receipt.state == REFUSED:
        return TaskRecord(name, "rejected", asked=asked, problem="The message was refused.")
    return TaskRecord(name, "queued", asked=asked)


def live_task_record(
    name: TaskId, events: Sequence[Event], asked: Content | None = None, *, begun: bool, closed: bool
) -> TaskRecord:
    """The task by what a reader of its events has; begun: whether it is at work; closed: whether no more come for now."""
    told = visible(events)
    if any(event.actions.end for event in told):
        return TaskRecord(name, "ended", told)
    if not told:
        return TaskRecord(name, "cancelled" if closed else "running" if begun else "queued", asked=asked)
    return TaskRecord(name, "waiting" if closed else "running", told)


def is_question(event: Event) -> bool:
    """Whether the user is asked something there, in words: for a reply, or for his leave."""
    awaits = event.actions.awaits
    return awaits is not None and (awaits.kind == "reply" or question_of(event) is not None)


def is_output(event: Event) -> bool:
    """Whether what is said there, if anything, is part of what the task gives: not why a guardrail let nothing through."""
    return event.author != USER and is_shown_to_user(event) and not is_question(event) and not event.actions.blocked_by


def _is_message(event: Event) -> bool:
    return event.author == USER and event.content is not None


def blocked_answer(events: Sequence[Event]) -> Event | None:
    """The last words, if they say why a guardrail let none through."""
    last = next((event for event in reversed(events) if shown_text(event)), None)
    return last if last is not None and last.actions.blocked_by else None


def _state_at(reason: str, events: Sequence[Event]) -> TaskState:
    if reason == "blocked" or (reason in COMPLETE_ENDS and blocked_answer(events) is not None):
        return TaskState.TASK_STATE_REJECTED
    if reason in _ALWAYS_GOOD or (reason in COMPLETE_ENDS and any(map(shown_text, events))):
        return TaskState.TASK_STATE_COMPLETED
    return TaskState.TASK_STATE_CANCELED if reason == CANCELLED else TaskState.TASK_STATE_FAILED
