"""Renders turns as steps of the run, and each agent's work as a subagent. Pure.

STEP_STARTED       a turn begins: its agent was selected, or received a handoff
SUBAGENT_STARTED   an agent produces its first output, in its turn or nested below the turn's agent
SUBAGENT_FINISHED  the agent is done, at the latest at the end of its turn or of the run; suspended if it waits

For the protocol the gateway is the agent, and the agents of the tree are its subagents. A subagent id consists of the
invocation and the branch, so an agent that continues after a wait keeps its id in the next run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from turnwise.facts.events import Event
from turnwise.gateway.ag_ui.schema import Wire, event


class TurnSteps:
    """Emits step and subagent events.

    Args:
        description_of: Returns an agent's description, if the reader may know of the agent.
        supports_subagents: Whether the client supports subagents.
    """

    def __init__(self, description_of: Callable[[str], str | None], *, supports_subagents: bool = True) -> None:
        self._description_of, self._supports_subagents = description_of, supports_subagents
        self._step: str | None = None
        self._open: dict[str, None] = {}
        self._begun: set[str] = set()

    def begin(self, agent: str) -> Iterator[Wire]:
        """Starts an agent's turn, unless it is the current one."""
        if agent != self._step:
            yield from self._end_step()
            self._step = agent
            yield event("STEP_STARTED", stepName=agent)

    def hand_over(self, agent: str) -> Iterator[Wire]:
        """Ends the current turn and starts the next agent's."""
        yield from self._finish(list(self._open), {})
        yield from self._end_step()
        yield from self.begin(agent)

    def tag(self, source: Event) -> str | None:
        """Returns the subagent id for an event; None if the event belongs to no subagent."""
        return _id(source, source.branch) if self._supports_subagents and source.branch else None

    def announce(self, source: Event) -> Iterator[Wire]:
        """Announces the event's agent as a subagent, once."""
        tag = self.tag(source)
        if tag is None or tag in self._begun:
            return
        above = [_id(source, branch) for branch in source.branch.parent.with_ancestors()]
        parent = next((id_ for id_ in above if id_ in self._begun), None)
        self._begun.add(tag)
        self._open[tag] = None
        description = self._description_of(source.author)
        yield event(
            "SUBAGENT_STARTED", subagentRunId=tag, name=source.author, description=description, parentSubagentRunId=parent
        )

    def finished(self, source: Event) -> Iterator[Wire]:
        """Ends the subagents that the event reports as finished."""
        if source.actions.finished and self._supports_subagents:
            yield from self._finish([_id(source, branch) for branch in source.actions.finished], {})

    def fail(self, source: Event, message: str, code: str) -> Iterator[Wire]:
        """Ends the event's subagent with an error."""
        tag = self.tag(source)
        if tag in self._open:
            del self._open[tag]
            yield event("SUBAGENT_ERROR", subagentRunId=tag, message=message, code=code)

    def is_open(self, tag: str | None) -> bool:
        """Returns whether the subagent was announced and has not ended."""
        return tag in self._open

    def close(self, waiting: Mapping[str, Sequence[str]]) -> Iterator[Wire]:
        """Ends the run's turn and subagents. waiting: the interrupts of each suspended subagent."""
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


def _id(source: Event, branch: str) -> str:
    return f"{source.invocation_id}:{branch}"
