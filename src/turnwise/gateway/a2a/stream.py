"""Renders a task for one reader, as a snapshot or as a stream of updates."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import Protocol

from a2a.types import Artifact, Message, Part, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent

from turnwise.facts.callers import Permission
from turnwise.facts.events import USER, Event
from turnwise.gateway.a2a.messages import MOST_INLINE, TEXT_TYPE, PartWriter, invalid_field
from turnwise.gateway.a2a.request import OperationRequest, TaskId
from turnwise.gateway.a2a.start import SentMessage
from turnwise.gateway.a2a.tasks import (
    FINAL_STATES,
    TaskRecord,
    answer_of,
    artifact_of,
    files_of,
    find_task,
    is_output,
    live_task_record,
    services_of_task,
    task_of,
    update_of,
)
from turnwise.gateway.front import Front
from turnwise.gateway.shared.stream import MessageCompleted, ReaderStream, TextPiece
from turnwise.runner import Invocation

DIRECT_ANSWER_TAG = "a2a:message"
"""Tag of agents that answer with a message instead of a task."""
StreamItem = Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent


class TaskEvents:
    """Converts session events to artifact updates for one reader.

    The joined chunks of an artifact equal the recorded text. If they cannot, because the reader joined late or the text was
    changed, the whole artifact replaces them. An artifact cannot be removed, so the caller sends the whole task again when
    streamed text is retracted.
    """

    def __init__(self, name: TaskId) -> None:
        self._name, self._stream = name, ReaderStream()

    @property
    def is_open(self) -> bool:
        """Returns whether chunks were sent of an artifact that is not recorded yet."""
        return bool(self._stream.open)

    def chunk(self, event: Event) -> Iterator[TaskArtifactUpdateEvent]:
        """Yields the update for a partial event."""
        for item in self._stream.feed(event):
            if isinstance(item, TextPiece):
                part = Part(text=item.text, media_type=TEXT_TYPE)
                yield self._update(artifact_of(event, [part]), append=item.offset > 0, last=False)

    def is_retraction(self, event: Event, parts: Sequence[Part]) -> bool:
        """Returns whether this event retracts something that was streamed as an artifact. Call it before `whole`."""
        return event.actions.rewind is not None or (event.id in self._stream.open and not (parts and is_output(event)))

    def whole(self, event: Event, parts: Sequence[Part]) -> Iterator[TaskArtifactUpdateEvent]:
        """Yields the update for a stored event. parts: the event's content as parts."""
        is_retraction = self.is_retraction(event, parts)
        sent = "".join(item.sent for item in self._stream.feed(event) if isinstance(item, MessageCompleted))
        if is_retraction:  # other open artifacts are retracted too: their stored events bring the whole text
            list(self._stream.abort())
        if not parts or not is_output(event):
            return
        if sent and parts[0].text.startswith(sent):
            rest = Part(text=parts[0].text[len(sent) :], media_type=TEXT_TYPE)
            yield self._update(artifact_of(event, [rest, *parts[1:]]), append=True, last=True)
        else:
            yield self._update(artifact_of(event, parts), append=False, last=True)

    def _update(self, artifact: Artifact, *, append: bool, last: bool) -> TaskArtifactUpdateEvent:
        return TaskArtifactUpdateEvent(
            task_id=self._name.id, context_id=self._name.session, artifact=artifact, append=append, last_chunk=last
        )


class _HistoryParams(Protocol):
    history_length: int

    def HasField(self, name: str) -> bool: ...


def history_of(params: _HistoryParams) -> int | None:
    """Returns the requested number of history messages; None if the request does not say. Raises RequestInvalid."""
    if not params.HasField("history_length"):
        return None
    if params.history_length < 0:
        raise invalid_field("historyLength", "The value is negative.")
    return params.history_length


class TaskStream:
    """Renders one task for one reader.

    Args:
        history: Maximum number of history messages; None = the default.
        modes: Media types that the reader accepts; empty = any.
        to: The permission that the caller needs.
    """

    def __init__(
        self,
        front: Front,
        operation: OperationRequest,
        name: TaskId,
        history: int | None = None,
        modes: Iterable[str] = (),
        to: Permission = "sessions:read",
    ) -> None:
        self._front, self._operation, self._name = front, operation, name
        self._history, self._modes, self._to = history, list(modes), to
        self._services = services_of_task(operation, name)
        self._delivered = TaskRecord(name, "queued")

    async def task(self, record: TaskRecord, *, artifacts: bool = True, inline: int = MOST_INLINE) -> Task:
        """Returns the task for a record, with at most `inline` bytes of files."""
        writer = await self._part_writer(record.events, inline)
        return task_of(record, self._operation.view, writer, history=self._history, artifacts=artifacts)

    def now(self, sent: SentMessage) -> TaskRecord:
        """Returns the current record of the task that a message began or continues."""
        item = [*sent.before, *sent.invocation.feed.stored]
        begun, closed = bool(sent.before) or sent.invocation.id is not None, sent.invocation.feed.is_closed
        return live_task_record(self._name, item, sent.content, begun=begun, closed=closed)

    async def answer(self, sent: SentMessage) -> Task | Message:
        """Waits until the message is answered or the task waits, and returns the task.

        An agent that answers without a task gives a message, if it completed.
        """
        await sent.invocation.feed.complete()
        record = await self._settled_record(self.now(sent))
        if self._has_tag(record) and record.state(self._operation.view) == TaskState.TASK_STATE_COMPLETED:
            answer = answer_of(record, await self._part_writer(record.events))
            if answer.parts:
                return answer
        return await self.task(record)

    async def stream(self, sent: SentMessage) -> AsyncGenerator[StreamItem]:
        """Yields the task and its updates until it is over or needs input. An agent that answers without a task gives one
        message.
        """
        if any(DIRECT_ANSWER_TAG in card.tags for card in self._front.runner.tree):
            await _wait_for_selection(sent.invocation)
            if self._has_tag(self.now(sent)):
                yield await self.answer(sent)
                return
        initial = self._delivered = self.now(sent)
        yield await self.task(initial)
        if initial.state(self._operation.view) not in FINAL_STATES:
            async for item in self._updates(sent.before, sent.invocation):
                yield item
            self._delivered = await self._settled_record(self._delivered)
            if _has_changed(initial, self._delivered):
                yield await self._update()

    async def follow(self, record: TaskRecord) -> AsyncGenerator[StreamItem]:
        """Yields the task and its updates until it is over, across all of its waits."""
        self._delivered = record
        yield await self.task(record)
        while self._delivered.state(self._operation.view) not in FINAL_STATES:
            before, message = self._delivered.before(self._delivered.last_message), self._delivered.last_message
            if self._delivered.status == "waiting":
                latest, before = await self._wait_for_more(), self._delivered.events
                message = latest.first_message_after(self._delivered)
                if not message:  # the wait was cancelled or timed out
                    self._delivered = latest
                    yield await self._update()
                    continue
            # Find it by its message: only then are partial events included.
            invocation = await self._services.messages.find(self._name.session, message)
            initial = self._delivered
            async for item in self._updates(before, invocation):
                yield item
            if _has_changed(initial, self._delivered):
                yield await self._update()

    async def _wait_for_more(self) -> TaskRecord:
        """Waits until the log holds more of the task than was sent, and returns the new record."""
        events, session = self._delivered.events, self._name.session
        await self._services.threads.wait_for_progress(session, events[0].invocation_id, _last_sequence(events))
        return await find_task(self._operation, self._name.id, to=self._to)

    async def _updates(self, before: Sequence[Event], invocation: Invocation) -> AsyncGenerator[StreamItem]:
        """Yields updates for the message's new events until it ends or waits. before: the task's events before the message."""
        task_events, is_starting = TaskEvents(self._name), self._delivered.status in ("queued", "waiting")
        async for event in invocation.events(after=_last_sequence(self._delivered.events)):
            if event.partial:
                for update in task_events.chunk(event):
                    yield update
                continue
            writer = await self._part_writer([event])
            if is_starting and event.author == USER:
                is_starting = False
                yield update_of(TaskRecord(self._name, "running", (*before, event)), self._operation.view, writer)
            parts = writer.of(event)
            is_retraction = task_events.is_retraction(event, parts)
            for update in task_events.whole(event, parts):
                yield update
            if is_retraction:  # by a guardrail, or with an attempt whose process died
                yield await self.task(self._record(before, invocation, closed=False))
        self._delivered = self._record(before, invocation, closed=True)
        if task_events.is_open:  # the speaking agent failed or was stopped
            yield await self.task(self._delivered)

    async def _update(self) -> StreamItem:
        return update_of(self._delivered, self._operation.view, await self._part_writer(self._delivered.events))

    def _record(self, before: Sequence[Event], invocation: Invocation, *, closed: bool) -> TaskRecord:
        return live_task_record(self._name, [*before, *invocation.feed.stored], begun=True, closed=closed)

    async def _settled_record(self, record: TaskRecord) -> TaskRecord:
        """Reloads a waiting task, because a repeated message may have been answered since."""
        return await find_task(self._operation, self._name.id, to=self._to) if record.status == "waiting" else record

    async def _part_writer(self, events: Sequence[Event], inline: int = MOST_INLINE) -> PartWriter:
        files = await files_of(self._operation, self._name, events, inline)
        return PartWriter(self._operation.view, files, self._modes, inline)

    def _has_tag(self, record: TaskRecord) -> bool:
        tree = self._front.runner.tree
        selections = (event.actions.selection for event in record.events if event.author == USER)
        selected = next((selection.agent for selection in selections if selection), None)
        return selected is not None and selected in tree and DIRECT_ANSWER_TAG in tree.card(selected).tags


def _has_changed(one: TaskRecord, other: TaskRecord) -> bool:
    return (one.status, list(one.events)) != (other.status, list(other.events))


def _last_sequence(events: Sequence[Event]) -> int:
    return max((event.sequence or 0 for event in events), default=0)


async def _wait_for_selection(invocation: Invocation) -> None:
    """Returns once an agent is selected, or the invocation ends without one."""
    async for event in invocation.events():
        if event.actions.selection is not None:
            return
