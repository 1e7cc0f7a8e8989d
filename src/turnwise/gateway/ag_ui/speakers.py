"""Who has the floor: turns as steps of the run, and each agent's work as a subagent's. Pure.

STEP_STARTED      a turn begins: its agent was chosen, or was handed the floor
SUBAGENT_STARTED  an agent begins to say something, in its turn, or below the agent whose turn it is
SUBAGENT_FINISHED it is known to be done, at the latest when its turn or the run ends; suspended when it waits

For the protocol the gateway is the agent and those behind it are its subagents. An id is made of the invocation and the place
in it, so that an agent that goes on after a wait, in another run, has the same.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from turnwise.facts.events import Event
from turnwise.gateway.ag_ui.schema import Wire, event


class TurnSteps:
    """described: what an agent is, for who may know. announced: whether the client knows of subagents."""

    def __init__(self, described: Callable[[str], str | None], *, announced: bool = True) -> None:
        self._described, self._announced = described, announced
        self._step: str | None = None
        self._open: dict[str, None] = {}
        self._begun: set[str] = set()

    def begin(self, agent: str) -> Iterator[Wire]:
        """That agent gets the floor."""
        if agent != self._step:
            yield from self._end_step()
            self._step = agent
            yield event("STEP_STARTED", stepName=agent)

    def hand_over(self, agent: str) -> Iterator[Wire]:
        """The one who has the floor is done, and that agent gets it."""
        yield from self._finish(list(self._open), {})
        yield from self._end_step()
        yield from self.begin(agent)

    def tag(self, said: Event) -> str | None:
        """Whose work the event belongs to; None = nobody's in particular."""
        return _id(said, said.branch) if self._announced and said.branch else None

    def announce(self, said: Event) -> Iterator[Wire]:
        """Whoever says that is at work, unless it was told before."""
        tag = self.tag(said)
        if tag is None or tag in self._begun:
            return
        above = [_id(said, branch) for branch in _above(said.branch)]
        parent = next((each for each in above if each in self._begun), None)
        self._begun.add(tag)
        self._open[tag] = None
        described = self._described(said.author)
        yield event("SUBAGENT_STARTED", subagentRunId=tag, name=said.author, description=described, parentSubagentRunId=parent)

    def finished(self, said: Event) -> Iterator[Wire]:
        """What the event says of who is done."""
        if said.actions.finished and self._announced:
            yield from self._finish([_id(said, branch) for branch in said.actions.finished], {})

    def fail(self, said: Event, message: str, code: str) -> Iterator[Wire]:
        """Whoever says that could not go on."""
        tag = self.tag(said)
        if tag in self._open:
            del self._open[tag]
            yield event("SUBAGENT_ERROR", subagentRunId=tag, message=message, code=code)

    def is_open(self, tag: str | None) -> bool:
        """Whether that one was announced, and is still at work."""
        return tag in self._open

    def close(self, waiting: Mapping[str, Sequence[str]]) -> Iterator[Wire]:
        """The run ends. waiting: who waits, for which interrupts."""
        yield from self._finish(list(self._open), waiting)
        yield from self._end_step()

    def _finish(self, tags: Sequence[str], waiting: Mapping[str, Sequence[str]]) -> Iterator[Wire]:
        for tag in reversed(tags):
            if tag in self._open:
                del self._open[tag]
                outcome = {"type": "suspended", "interruptIds": list(waiting[tag])} if tag in waiting else None
                yield event("SUBAGENT_FINISHED", subagentRunId=tag, outcome=outcome)

    def _end_step(self) -> Iterator[Wire]:
        if self._step is not None:
            step, self._step = self._step, None
            yield event("STEP_FINISHED", stepName=step)


def _id(said: Event, branch: str) -> str:
    return f"{said.invocation_id}:{branch}"


def _above(branch: str) -> Iterator[str]:
    """The branches above that one, the nearest first."""
    while "/" in branch:
        branch = branch.rpartition("/")[0]
        yield branch
