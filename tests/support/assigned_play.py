"""A small flow for tests of those who work in one: its turns and labels are written down, nothing is chosen."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from pydantic import JsonValue

from turnwise import AgentContext, Content
from turnwise.agents.function import make_card
from turnwise.facts.content import DataPart, text_content
from turnwise.facts.errors import ToolFailed
from turnwise.facts.events import Event
from turnwise.ports.agent import Agent
from turnwise.ports.assignment import AssignedTask, Scope
from turnwise.ports.context import Outcome, Show
from turnwise.ports.tool import Tool, ToolRules
from turnwise.tools.function import FunctionTool

_RULES = ToolRules(recorded=False, last=True, private=True)


class Given:
    """An assignment of tasks whose results are numbers (implements `ports.assignment.Assignment`).

    A task's label is `flow/<task>`; what becomes of it is said by the flow under that label, and taken up from there.
    """

    def __init__(self, flow: AgentContext, *tasks: str, sees: Sequence[str] = (), tools: Sequence[Tool] = ()) -> None:
        self._flow, self._more = flow, tools
        self.by = self.giver = flow.card.name
        self.request = flow.message
        self.tasks = tuple(AssignedTask(name, f"Do {name}.", {"type": "integer"}) for name in tasks)
        own = tuple(f"{self.by}/{name}" for name in tasks)
        self.scope = Scope(own, frozenset((*own, *(f"{self.by}/{name}" for name in sees))))
        self.instructions = f"Say with task_succeeded that you are done with {' and '.join(tasks)}."
        self.done: dict[str, JsonValue] = {}
        self.ended = False

    @property
    def tools(self) -> Sequence[Tool]:
        async def task_succeeded(result: Any, task: str | None = None) -> str:
            await self.succeed(result, task=task)
            return "Taken."

        async def end_turn() -> str:
            await self.end_turn()
            return "Your turn is over."

        return [*(FunctionTool(each, rules=_RULES) for each in (task_succeeded, end_turn)), *self._more]

    @property
    def is_over(self) -> bool:
        return self.ended or len(self.done) == len(self.tasks)

    async def restore(self) -> None:
        """Takes up what is on record."""
        for each in self.tasks:
            if f"done:{each.name}" in self._flow.recorded:
                self.done[each.name] = _result(await self._flow.once(f"done:{each.name}", _never))

    async def succeed(self, result: JsonValue = "", *, task: str | None = None) -> None:
        name = self.tasks[0].name if task is None else task
        if all(each.name != name for each in self.tasks):
            raise ToolFailed(f"There is no task {name!r}.")
        if not isinstance(result, int):
            raise ToolFailed("The result has to be a number.")

        async def make(_: Show) -> Event:
            said = self._flow.event(Content(parts=(DataPart(name="task", data=result),)), checkpoint=True)
            return said.replace(scope=(f"{self.by}/{name}",))

        await self._flow.once(f"done:{name}", make)
        self.done[name] = result

    async def fail(self, reason: str, *, task: str | None = None) -> None:
        raise ToolFailed("No task of this flow can fail.")

    async def end_turn(self, *, next: str | None = None, message: str | Content | None = None) -> None:
        self.ended = True


class Turn:
    """One turn of `Turns`: that agent is told `brief`, and gets an assignment of these tasks."""

    def __init__(
        self, agent: str, *tasks: str, brief: str = "Go.", sees: Sequence[str] = (), tools: Sequence[Tool] = ()
    ) -> None:
        self.agent, self.tasks, self.brief, self.sees, self.tools = agent, tasks, brief, sees, tools


class Turns:
    """A flow whose turns are written down. outcomes, given: what came of them in the last run, in order."""

    def __init__(self, *turns: Turn, agents: Sequence[Agent], name: str = "flow") -> None:
        self.card = make_card({"name": name, "kind": "flow"})
        self.children = tuple(agents)
        self._turns = turns
        self.outcomes: list[Outcome] = []
        self.given: list[Given] = []

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        self.outcomes, self.given = [], []
        for number, turn in enumerate(self._turns):
            given = Given(context, *turn.tasks, sees=turn.sees, tools=turn.tools)
            await given.restore()
            self.given.append(given)
            brief = text_content(turn.brief, "user")
            self.outcomes.append(
                await context.delegate(turn.agent, segment=f"{turn.agent}#{number}", message=brief, assignment=given)
            )
        return
        yield


def _result(said: Event) -> JsonValue:
    return next(part.data for part in said.content.parts if isinstance(part, DataPart)) if said.content else None


async def _never(_: Show) -> Event:
    raise AssertionError("It is on record.")
