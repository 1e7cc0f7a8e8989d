"""Functions as tasks: the task, and the agent that does it."""

import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, get_type_hints

from turnwise.agents.function import make_card
from turnwise.facts.errors import AgentFailed, FlowDefinitionError
from turnwise.facts.events import Event
from turnwise.flows.task import Task
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.tools.results import json_value
from turnwise.tools.threads import in_thread

_TURN = frozenset({"context", "request"})


class TaskFunction:
    """An agent for one task, which it makes too: what the function returns is the task's result.

    options: as of Task; the name is the function's, the objective its docstring's first line, the result's type what it is
    annotated to return, if they are not given.
    """

    children: Sequence[Agent] = ()

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        name = options.get("name") or function.__name__
        first_line = (inspect.getdoc(function) or "").partition("\n")[0]
        objective = options.get("objective", first_line)
        result = options.get("result", _returned(function, name))
        self.card = make_card({"name": name, "description": objective})
        self.task = Task(**{**options, "name": name, "objective": objective, "result": result, "agents": [self]})
        self._function = function
        self._wants = _parameters(function, self.task)

    def __repr__(self) -> str:
        return f"TaskFunction({self.card.name!r})"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._function(*arguments, **named)

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        part = context.assignment
        if part is None:
            raise AgentFailed(f"{self.card.name!r} is a task of a flow, and was asked outside of it.")
        task = part.tasks[0]
        values: dict[str, Any] = {name: task.given.get(name) for name in self._wants}
        values |= {name: value for name, value in (("context", context), ("request", part.request.text)) if name in values}
        if inspect.iscoroutinefunction(self._function):
            given = await self._function(**values)
        else:
            given = await in_thread(self._function, **values)
        if not part.is_over:
            await part.succeed(json_value("" if given is None else given, self.card.name), task=task.name)
        return
        yield  # an async generator that yields nothing itself: the result is said by the flow


def _returned(function: Callable[..., Any], name: str) -> Any:
    """The type of what the function returns; a text when nothing is annotated."""
    try:
        returned = get_type_hints(function).get("return", str)
    except Exception as error:
        raise FlowDefinitionError(f"The annotations of task {name!r} cannot be read: {error}.") from None
    return str if returned in (None, type(None), Any) else returned


def _parameters(function: Callable[..., Any], task: Task) -> Sequence[str]:
    known = _TURN | set(task.depends_on)
    wanted = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise FlowDefinitionError(f"Task {task.name!r}: {parameter.name!r} cannot be filled by its name.")
        if parameter.name in known:
            wanted.append(parameter.name)
        elif parameter.default is parameter.empty:
            raise FlowDefinitionError(
                f"Task {task.name!r}: its function wants {parameter.name!r}, which nothing fills.",
                fix=f"Parameters are {', '.join(sorted(known))}, or have a default.",
            )
    return wanted
