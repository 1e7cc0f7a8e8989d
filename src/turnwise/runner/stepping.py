"""Work that is done once: recorded when it is done, and found on record when its turn is run again."""

from collections.abc import Awaitable, Callable, MutableMapping
from inspect import isawaitable
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import Content
from turnwise.facts.events import Event, StepRecord
from turnwise.facts.sessions import TEMP_PREFIX
from turnwise.ports.context import Show
from turnwise.runner.floor import Floor
from turnwise.runner.journal import said_again
from turnwise.runner.views import as_json


class Voice(NamedTuple):
    """How an agent run is heard.

    blank: gives a new event of the agent. say: records what it says; repeat: the same for what was said in an attempt before,
    with all that the runner decided of it. show: passes a partial event on.
    """

    blank: Callable[[], Event]
    say: Callable[[Event], Awaitable[Event]]
    repeat: Callable[[Event], Awaitable[Event]]
    show: Show


class Steps(NamedTuple):
    """The steps of one agent run on one branch. delta, saved: what the run wrote since its last event."""

    floor: Floor
    branch: str
    voice: Voice
    delta: MutableMapping[str, JsonValue]
    saved: MutableMapping[str, int]

    async def step(self, key: str, work: Callable[[], Any]) -> Any:
        """What `work` gives, or gave (`AgentContext.step`)."""
        place = f"{self.branch}:{key}"
        known = self._known(place)
        if known is not None:
            return known.value
        await self.floor.recorder.confirm()
        delta, saved = dict(self.delta), dict(self.saved)
        made = work()
        value = as_json(f"The result of step {key!r}", await made if isawaitable(made) else made)
        wrote = {k: v for k, v in self.delta.items() if not k.startswith(TEMP_PREFIX) and (k not in delta or delta[k] != v)}
        kept = {name: version for name, version in self.saved.items() if saved.get(name) != version}
        record = StepRecord(key=place, value=value, state_delta=wrote, artifact_versions=kept)
        self.floor.steps[place] = record
        await self.floor.emit(self._with(self.voice.blank(), record))
        return value

    async def once(self, key: str, make: Callable[[Show], Awaitable[Event]]) -> Event:
        """What is said once (`AgentContext.once`)."""
        place = f"{self.branch}:{key}"
        known = self._known(place)
        if known is None:
            await self.floor.recorder.confirm()
            record = StepRecord(key=place, says=True)
            said = await self.voice.say(self._with(await make(self.voice.show), record))
            self.floor.steps[place] = record
            return said
        event = self.voice.blank()
        if known.value is None:
            return await self.voice.repeat(event.model_copy(update={"content": Content()}))  # the replay has it
        content, actions = said_again(known.value)
        return await self.voice.repeat(event.model_copy(update={"content": content, "actions": actions}))

    def _known(self, place: str) -> StepRecord | None:
        known = self.floor.steps.get(place)
        if known is not None and place in self.floor.journal.carried:
            self.delta.update(known.state_delta)
            self.saved.update(known.artifact_versions)
        return known

    def _with(self, event: Event, record: StepRecord) -> Event:
        return event.model_copy(update={"actions": event.actions.model_copy(update={"steps": (record,)})})
