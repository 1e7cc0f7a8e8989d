"""An agent's part in a flow, for one turn: what it is to do, and how it says that it is done (behaviours D3, D6)."""

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import Content, text_content
from turnwise.facts.errors import ToolFailed
from turnwise.facts.events import Event
from turnwise.flows.briefs import Word, instructions, relayed
from turnwise.flows.graph import Graph
from turnwise.flows.logged import Ended, closing_content, closing_of, turn_end_content, turn_end_of
from turnwise.flows.progress import Closing
from turnwise.flows.task import Status
from turnwise.flows.task_tools import task_tools
from turnwise.flows.turns import Labels, Turn
from turnwise.ports.assignment import AssignedTask, Scope
from turnwise.ports.context import AgentContext, Show
from turnwise.ports.tool import Tool

REASON_CHARACTERS = 2_000


class Desk(NamedTuple):
    """What all turns of one run of a flow share. waiting: who would have something to do once these tasks ended too.
    colleagues: who works in the flow at all. relays: as of Design.
    """

    context: AgentContext
    graph: Graph
    labels: Labels
    waiting: Callable[[Sequence[Closing]], Sequence[str]]
    colleagues: Sequence[str]
    relays: bool = False

    @property
    def flow(self) -> str:
        """The flow's name."""
        return self.context.card.name


class TurnAssignment:
    """One turn's assignment (implements `ports.assignment.Assignment`). How tasks end is said by the flow, at once."""

    def __init__(self, desk: Desk, turn: Turn) -> None:
        self._desk, self._turn = desk, turn
        self.closings: dict[str, Closing] = {}
        self.ended: Ended | None = None
        self._restored: set[str] = set()
        self._tries: dict[str, int] = {}

    @property
    def by(self) -> str:
        return self._desk.flow

    @property
    def giver(self) -> str | None:
        if not self._desk.relays:
            return self.by
        outer = self._desk.context.assignment
        return outer.giver if outer is not None else None

    @property
    def request(self) -> Content:
        return self._desk.context.message

    @property
    def tasks(self) -> tuple[AssignedTask, ...]:
        return self._turn.tasks

    @property
    def scope(self) -> Scope:
        return self._turn.scope

    @property
    def is_over(self) -> bool:
        return self.ended is not None or self.is_done

    @property
    def is_done(self) -> bool:
        """Whether every task has its end."""
        return len(self.closings) == len(self.tasks)

    @cached_property
    def instructions(self) -> str:
        return relayed(self._others) if self._desk.relays else instructions(self.by, self.tasks, self._others)

    @cached_property
    def tools(self) -> Sequence[Tool]:
        if self._desk.relays:
            return ()
        return task_tools(self, [self._desk.graph.tasks[task.name] for task in self.tasks], self._others)

    async def restore(self) -> None:
        """Takes up what is on record of this turn."""
        for task in self.tasks:
            closing = await self._recorded(task.name)
            if closing is not None:
                self.closings[task.name] = closing
                self._restored.add(task.name)
        if self._end_key in self._desk.context.recorded:
            self.ended = turn_end_of(await self._desk.context.once(self._end_key, _never)) or Ended()

    async def succeed(self, result: JsonValue = "", *, task: str | None = None) -> None:
        name = self._named(task)
        checked = self._desk.graph.tasks[name].result.checked(result)
        self._refuse_large(checked)
        await self._close(name, Closing(task=name, status=Status.SUCCESSFUL, result=checked))

    async def answer(self, text: str, data: JsonValue) -> None:
        """The agent came to its end with these words: they are the result of the first task that is open."""
        name = next(task.name for task in self.tasks if task.name not in self.closings)
        try:
            result = self._desk.graph.tasks[name].result.of_answer(text, data)
            self._refuse_large(result)
            await self._close(name, Closing(task=name, status=Status.SUCCESSFUL, result=result))
        except ToolFailed as misfit:
            await self.fail_all(str(misfit))

    async def fail(self, reason: str, *, task: str | None = None) -> None:
        name = self._named(task)
        await self._close(name, Closing(task=name, status=Status.FAILED, reason=reason[:REASON_CHARACTERS]))

    async def fail_all(self, reason: str) -> None:
        """No task that is open will be done in this turn, or at all."""
        for task in self.tasks:
            if task.name in self.closings:
                continue
            try:
                await self.fail(reason, task=task.name)
            except ToolFailed as blocked:  # a guardrail lets the reason not be said
                await self.fail(str(blocked), task=task.name)

    async def end_turn(self, *, next: str | None = None, message: str | Content | None = None) -> None:
        candidates = self._desk.waiting(tuple(self.closings.values()))
        if next is not None and next not in candidates:
            listed = ", ".join(candidates) or "nobody"
            raise ToolFailed(f"{next[:64]!r} has nothing to do in {self.by!r} now.", fix=f"Those who have: {listed}.")
        content = text_content(message) if isinstance(message, str) else message
        ended = Ended(next, Word(self._turn.agent, content) if content is not None and content.parts else None)

        async def make(_: Show) -> Event:
            event = self._desk.context.event(turn_end_content(self.by, self._turn.agent, ended))
            return event.model_copy(update={"scope": (self._desk.labels.own,)})

        said = await self._desk.context.once(self._end_key, make)
        self.ended = turn_end_of(said) or Ended()  # a guardrail blocked whom it named, and its word

    @property
    def _others(self) -> Sequence[str]:
        return [name for name in self._desk.colleagues if name != self._turn.agent]

    @property
    def _end_key(self) -> str:
        return f"end#{self._turn.number}"

    def _named(self, task: str | None) -> str:
        """The name of the task that is meant."""
        names = [each.name for each in self.tasks]
        if task is None and len(names) > 1:
            raise ToolFailed("You have several tasks.", fix=f"Say which: {', '.join(names)}.")
        name = names[0] if task is None else task
        if name not in names:
            raise ToolFailed(f"{name[:64]!r} is no task of yours.", fix=f"Yours: {', '.join(names)}.")
        return name

    def _refuse_large(self, result: JsonValue) -> None:
        most = self._desk.context.config.limits.message_bytes
        size = len(json.dumps(result))
        if size > most:
            raise ToolFailed(f"The result has {size:,} bytes, {most:,} are allowed.", fix="Save it as an artifact.")

    async def _close(self, name: str, closing: Closing) -> None:
        """Says how the task ended. ToolFailed when it ended before, or a guardrail does not let it be said."""
        if name in self._restored:
            self._restored.remove(name)  # the run that did it is run again
            return
        if name in self.closings:
            raise ToolFailed(f"The task {name!r} is {self.closings[name].status} already.")
        closing = closing.model_copy(update={"by": self._turn.agent, "turn": self._turn.number})

        async def make(_: Show) -> Event:
            event = self._desk.context.event(closing_content(self.by, closing), checkpoint=True)
            return event.model_copy(update={"scope": (self._desk.labels.of(name),)})

        self._tries[name] = self._tries.get(name, 0) + 1
        said = await self._desk.context.once(self._close_key(name, self._tries[name]), make)
        closed = closing_of(said)
        if closed is None:
            by = said.actions.guarded[-1].guardrail if said.actions.guarded else "a guardrail"
            raise ToolFailed(f"The result was blocked by {by!r}.", fix="Leave out what it must not hold.")
        self.closings[name] = closed

    def _close_key(self, name: str, number: int) -> str:
        return f"close#{self._turn.number}.{number}:{name}"

    async def _recorded(self, name: str) -> Closing | None:
        """How the task ended in this turn, as far as that is on record."""
        number = 1
        while (key := self._close_key(name, number)) in self._desk.context.recorded:
            closing = closing_of(await self._desk.context.once(key, _never))
            if closing is not None:
                return closing
            number += 1
        return None


async def _never(_: Show) -> Event:
    raise AssertionError("It is on record.")
