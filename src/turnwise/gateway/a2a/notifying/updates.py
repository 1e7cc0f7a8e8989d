"""A task's updates as its log grows, whole ones only, for whoever is told of them one by one."""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from a2a.types import StreamResponse, TaskState
from a2a.utils.errors import A2AError

from turnwise.facts.events import USER, Event
from turnwise.gateway.a2a.asking import Asking
from turnwise.gateway.a2a.found import files_of, find
from turnwise.gateway.a2a.names import TaskName
from turnwise.gateway.a2a.narration import Narration
from turnwise.gateway.a2a.parts import Shown
from turnwise.gateway.a2a.record import Record, record_while
from turnwise.gateway.a2a.tasks import task_of, update_of
from turnwise.gateway.front import Front
from turnwise.runner import Invocation


class Update(NamedTuple):
    """What is to be told. number: up to which event all is told then."""

    said: Sequence[StreamResponse]
    number: int


async def updates(front: Front, asking: Asking, name: TaskName, invocation: Invocation, *, after: int) -> AsyncIterator[Update]:
    """What its events above that number say, and in the end how it stands, if it is not at work. Nothing when there are
    none.
    """
    teller, told, number = _Teller(front, asking, name), list[Event](), after
    async for event in invocation.events():
        if event.partial:
            continue
        told.append(event)
        before, number = number, max(number, event.sequence or 0)
        # Not yet up to the event itself: with the last one comes how it stands.
        if number > after and (said := await teller.of(event, told)):
            yield Update(said, before)
    if number > after:
        stands = record_while(name, told, begun=True, closed=True)
        # What waits for others, or was gone on with at this moment, is at work, which was told with the message.
        news = [] if stands.state(asking.view) == TaskState.TASK_STATE_WORKING else [await teller.status(stands)]
        yield Update(news, number)


async def last_update(front: Front, asking: Asking, name: TaskName) -> Update | None:
    """How a task stands that ended before it was begun with; None when there is no such task."""
    try:
        record = await find(front, asking, name.id, to="messages:write")
    except A2AError:
        return None
    return Update([await _Teller(front, asking, name).status(record)], 0)


class _Teller:
    def __init__(self, front: Front, asking: Asking, name: TaskName) -> None:
        self._front, self._asking, self._name = front, asking, name
        self._narration = Narration(name)

    async def of(self, event: Event, told: Sequence[Event]) -> list[StreamResponse]:
        """What that event says, the last of those told."""
        if event.actions.rewind is not None:  # what an attempt said whose process died is taken back
            record = record_while(self._name, told, begun=True, closed=False)
            return [StreamResponse(task=task_of(record, self._asking.view, await self._shown(record.events)))]
        if event.author == USER:
            return [await self.status(Record(self._name, "running", told))] if event.content else []
        shown = await self._shown([event])
        return [StreamResponse(artifact_update=update) for update in self._narration.whole(event, shown.of(event))]

    async def status(self, record: Record) -> StreamResponse:
        """How it stands."""
        return StreamResponse(status_update=update_of(record, self._asking.view, await self._shown(record.events)))

    async def _shown(self, events: Sequence[Event]) -> Shown:
        return Shown(self._asking.view, await files_of(self._front, self._asking, self._name, events))
