"""A task while it goes on, as updates: what is said comes as artifacts, piece by piece. Pure."""

from collections.abc import Iterator, Sequence

from a2a.types import Artifact, Part, TaskArtifactUpdateEvent

from turnwise.facts.events import Event
from turnwise.gateway.a2a.names import TaskName
from turnwise.gateway.a2a.parts import TEXT_TYPE
from turnwise.gateway.a2a.record import is_output
from turnwise.gateway.a2a.tasks import artifact_of
from turnwise.gateway.speech.words import is_for_user


class Narration:
    """Tells one task to one reader. All pieces of an artifact, joined, are what is recorded; where they cannot be, because the
    reader came late or the whole was changed, it comes whole in their place. An artifact cannot be taken back: where pieces
    were told of what is none in the end, the task has to be told anew.
    """

    def __init__(self, name: TaskName) -> None:
        self._name = name
        self._said: dict[str, str] = {}

    @property
    def is_open(self) -> bool:
        """Whether pieces were told of what is not on record (yet)."""
        return bool(self._said)

    def piece(self, event: Event) -> Iterator[TaskArtifactUpdateEvent]:
        """What that partial event adds."""
        if not event.text or not is_for_user(event):
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
