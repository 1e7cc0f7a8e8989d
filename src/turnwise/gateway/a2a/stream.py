"""A task, told to one reader: as it is, or as it goes on."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import Protocol

from a2a.types import Artifact, Message, Part, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent

from turnwise.facts.callers import Permission
from turnwise.facts.events import USER, Event
from turnwise.gateway.a2a.ids import TaskId
from turnwise.gateway.a2a.lookup import files_of, find_task, user_of_task
from turnwise.gateway.a2a.messages import invalid_field
from turnwise.gateway.a2a.parts import TEXT_TYPE, PartWriter
from turnwise.gateway.a2a.request import OperationRequest
from turnwise.gateway.a2a.start import SentMessage
from turnwise.gateway.a2a.task_state import OVER, TaskRecord, is_output, live_task_record
from turnwise.gateway.a2a.tasks import answer_of, artifact_of, task_of, update_of
from turnwise.gateway.front import Front
from turnwise.gateway.shared.utterances import is_shown_to_user
from turnwise.runner import Invocation


class TaskEvents:
    """Tells one task to one reader. All pieces of an artifact, joined, are what is recorded; where they cannot be, because the
    reader came late or the whole was changed, it comes whole in their place. An artifact cannot be taken back: where pieces
    were told of what is none in the end, the task has to be told anew.
    """

    def __init__(self, name: TaskId) -> None:
        self._name = name
        self._said: dict[str, str] = {}

    @property
    def is_open(self) -> bool:
        """Whether pieces were told of what is not on record (yet)."""
        return bool(self._said)

    def piece(self, event: Event) -> Iterator[TaskArtifactUpdateEvent]:
        """What that partial event adds."""
        if not event.text or not is_shown_to_user(event):
            return
        said = self._said.get(event.id, "")
        offset = len(said) if event.offset is None else event.offset
        new = event.text[max(len(said) - offset, 0) :]
        if offset > len(said) or not new:
            return  # what came before it was lost on the way: all of it comes with the whole
        part = Part(text=new, media_type=TEXT_TYPE)
        yield self._update(artifact_of(event, [part]), append=bool(said), last=False)
        self._said[event.id] = said + new

    def is_taken_back(self, event: Event, parts: Sequence[Part]) -> bool:
        """Whether with that event of the log something is no artifact of the task that was told as one. To be asked before
        the event is told.
        """
        return event.actions.rewind is not None or (event.id in self._said and not (parts and is_output(event)))

    def whole(self, event: Event, parts: Sequence[Part]) -> Iterator[TaskArtifactUpdateEvent]:
        """What that event of the log adds; parts: what it says."""
        is_taken_back = self.is_taken_back(event, parts)
        said = self._said.pop(event.id, None)
        if is_taken_back:  # of what others are saying, nothing is there any more either: it comes whole
            self._said.clear()
        if not parts or not is_output(event):
            return
        if said and parts[0].text.startswith(said):
            rest = Part(text=parts[0].text[len(said) :], media_type=TEXT_TYPE)
            yield self._update(artifact_of(event, [rest, *parts[1:]]), append=True, last=True)
        else:
            yield self._update(artifact_of(event, parts), append=False, last=True)

    def _update(self, artifact: Artifact, *, append: bool, last: bool) -> TaskArtifactUpdateEvent:
        return TaskArtifactUpdateEvent(
            task_id=self._name.id, context_id=self._name.session, artifact=artifact, append=append, last_chunk=last
        )


PLAIN = "a2a:message"
"""The tag of agents that answer without a task."""
Told = Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent


class _Limited(Protocol):
    history_length: int

    def HasField(self, name: str) -> bool: ...


def history_of(asked: _Limited) -> int | None:
    """How many messages of the history are wanted; None = it is not said. RequestInvalid."""
    if not asked.HasField("history_length"):
        return None
    if asked.history_length < 0:
        raise invalid_field("historyLength", "It is below 0.")
    return asked.history_length


class TaskStream:
    """history: how many messages are wanted; None = it is not said. modes: the media types that the reader takes. to: what he
    asked to do with the task.
    """

    def __init__(
        self,
        front: Front,
        asking: OperationRequest,
        name: TaskId,
        history: int | None = None,
        modes: Iterable[str] = (),
        to: Permission = "sessions:read",
    ) -> None:
        self._front, self._asking, self._name = front, asking, name
        self._history, self._modes, self._to = history, list(modes), to
        self._user = user_of_task(asking, name)
        self._at = TaskRecord(name, "queued")
        """How far the reader was told."""

    async def task(self, record: TaskRecord, *, artifacts: bool = True) -> Task:
        """The task as it is on that record."""
        shown = await self._shown(record.events)
        return task_of(record, self._asking.view, shown, history=self._history, artifacts=artifacts)

    def now(self, sent: SentMessage) -> TaskRecord:
        """The task that the message began, or goes on with, as far as it is."""
        told = [*sent.before, *sent.invocation.feed.stored]
        begun, closed = bool(sent.before) or sent.invocation.id is not None, sent.invocation.feed.is_closed
        return live_task_record(self._name, told, sent.content, begun=begun, closed=closed)

    async def answer(self, sent: SentMessage) -> Task | Message:
        """What came of the message, once it is answered, or something is waited for."""
        await sent.invocation.feed.closed()
        record = await self._settled(self.now(sent))
        if self._has_tag(record) and record.state(self._asking.view) == TaskState.TASK_STATE_COMPLETED:
            answer = answer_of(record, await self._shown(record.events))
            if answer.parts:
                return answer
        return await self.task(record)

    async def stream(self, sent: SentMessage) -> AsyncGenerator[Told]:
        """The task of that message and its updates, until it is over or asks; or the answer alone, from an agent that answers
        without a task.
        """
        if any(PLAIN in card.tags for card in self._front.runner.tree):
            await _selected(sent.invocation)
            if self._has_tag(self.now(sent)):
                yield await self.answer(sent)
                return
        begun = self._at = self.now(sent)
        yield await self.task(begun)
        if begun.state(self._asking.view) not in OVER:
            async for told in self._updates(sent.before, sent.invocation):
                yield told
            self._at = await self._settled(self._at)
            if _differs(begun, self._at):
                yield await self._update()

    async def follow(self, record: TaskRecord) -> AsyncGenerator[Told]:
        """The task on that record, and its updates until it is over, however often it asks."""
        self._at = record
        yield await self.task(record)
        while self._at.state(self._asking.view) not in OVER:
            before, message = self._at.before(self._at.last_message), self._at.last_message
            if self._at.standing == "waiting":
                known, before = await self._gone_on(), self._at.events
                message = known.first_message_after(self._at)
                if not message:  # it was not answered, but cancelled, or nobody answered in time
                    self._at = known
                    yield await self._update()
                    continue
            # By its message, as then the pieces of who speaks come, too.
            invocation = await self._front.messages.find(self._asking.caller, self._name.session, message, self._user)
            begun = self._at
            async for told in self._updates(before, invocation):
                yield told
            if _differs(begun, self._at):
                yield await self._update()

    async def _gone_on(self) -> TaskRecord:
        """The task, once more is on record of it than was told."""
        events, caller, session = self._at.events, self._asking.caller, self._name.session
        await self._front.threads.wait_for_progress(caller, session, events[0].invocation_id, _last(events), self._user)
        return await find_task(self._front, self._asking, self._name.id, to=self._to)

    async def _updates(self, before: Sequence[Event], invocation: Invocation) -> AsyncGenerator[Told]:
        """What comes of a message, behind what was told, up to its end or a wait; before: what was on record before it."""
        narration, begins = TaskEvents(self._name), self._at.standing in ("queued", "waiting")
        async for event in invocation.events(after=_last(self._at.events)):
            if event.partial:
                for update in narration.piece(event):
                    yield update
                continue
            shown = await self._shown([event])
            if begins and event.author == USER:
                begins = False
                yield update_of(TaskRecord(self._name, "running", (*before, event)), self._asking.view, shown)
            parts = shown.of(event)
            is_taken_back = narration.is_taken_back(event, parts)
            for update in narration.whole(event, parts):
                yield update
            if is_taken_back:  # by a guardrail, or with an attempt whose process died
                yield await self.task(self._record(before, invocation, closed=False))
        self._at = self._record(before, invocation, closed=True)
        if narration.is_open:  # whoever was speaking failed, or was stopped
            yield await self.task(self._at)

    async def _update(self) -> Told:
        return update_of(self._at, self._asking.view, await self._shown(self._at.events))

    def _record(self, before: Sequence[Event], invocation: Invocation, *, closed: bool) -> TaskRecord:
        return live_task_record(self._name, [*before, *invocation.feed.stored], begun=True, closed=closed)

    async def _settled(self, record: TaskRecord) -> TaskRecord:
        """The task when nothing more comes for now: a message that is told again may have been answered since."""
        return (
            await find_task(self._front, self._asking, self._name.id, to=self._to) if record.standing == "waiting" else record
        )

    async def _shown(self, events: Sequence[Event]) -> PartWriter:
        files = await files_of(self._front, self._asking, self._name, events)
        return PartWriter(self._asking.view, files, self._modes)

    def _has_tag(self, record: TaskRecord) -> bool:
        tree = self._front.runner.tree
        selections = (event.actions.selection for event in record.events if event.author == USER)
        selected = next((selection.agent for selection in selections if selection), None)
        return selected is not None and selected in tree and PLAIN in tree.card(selected).tags


def _differs(one: TaskRecord, other: TaskRecord) -> bool:
    return (one.standing, list(one.events)) != (other.standing, list(other.events))


def _last(events: Sequence[Event]) -> int:
    return max((event.sequence or 0 for event in events), default=0)


async def _selected(invocation: Invocation) -> None:
    """Returns when it is known who answers, or nobody will."""
    async for event in invocation.events():
        if event.actions.selection is not None:
            return
