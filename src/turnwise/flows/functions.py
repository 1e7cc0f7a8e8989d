"""Functions as tasks: a task together with the agent that does it."""

import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, get_type_hints

from turnwise.agents.function import make_card
from turnwise.facts.errors import AgentFailed, FlowDefinitionError
from turnwise.facts.events import Event
from turnwise.facts.hints import did_you_mean
from turnwise.flows.argument_checks import check_text, kind_capitalized, kind_of
from turnwise.flows.tasks.task import Task
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.tools.event_loop import in_thread
from turnwise.tools.function import json_value

_TURN_PARAMETERS = frozenset({"context", "request"})
_TASK_OPTIONS = tuple(name for name in inspect.signature(Task).parameters if name != "agents")


class TaskFunction:
    """An agent for one task, which it creates; the function's return value is the task's result.

    Args:
        function: The function.
        options: The arguments of Task. By default the name is the function's, the objective is the docstring's first
            line, and the result type is the annotated return type.

    Raises:
        FlowDefinitionError: The function or an option is not valid.
    """

    children: Sequence[Agent] = ()

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        name = _name(function, options)
        first_line = (inspect.getdoc(function) or "").partition("\n")[0]
        objective = options.get("objective", first_line)
        result = options.get("result", _return_type(function, name))
        self.card = make_card({"name": name, "description": objective})
        self.task = Task(**{**options, "name": name, "objective": objective, "result": result, "agents": [self]})
        self._function = function
        self._parameter_names = _parameters(function, self.task)

    def __repr__(self) -> str:
        return f"TaskFunction({self.card.name!r})"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._function(*arguments, **named)

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        """Calls the function with the results that its parameters name, and reports its value as the task's result."""
        assignment = context.assignment
        if assignment is None:
            raise AgentFailed(f"{self.card.name!r} is a task of a flow, and was asked outside of it.")
        task = assignment.tasks[0]
        values: dict[str, Any] = {name: task.given.get(name) for name in self._parameter_names}
        values |= {
            name: value for name, value in (("context", context), ("request", assignment.request.text)) if name in values
        }
        if inspect.iscoroutinefunction(self._function):
            result = await self._function(**values)
        else:
            result = await in_thread(self._function, **values)
        if not assignment.is_over:
            await assignment.succeed(json_value("" if result is None else result, self.card.name), task=task.name)
        return
        yield  # makes this an async generator; the flow emits the result


def _name(function: Callable[..., Any], options: Mapping[str, Any]) -> str:
    """Returns the task's name. Raises FlowDefinitionError if the object is not a function, or for unknown options."""
    if not callable(function) or isinstance(function, type) or hasattr(function, "card"):
        fix = 'Write @flow.task before a function; for an agent that there is, give the flow Task("name", agents=[…]).'
        raise FlowDefinitionError(f"{kind_capitalized(function)} cannot be made a task.", fix=fix)
    name = options.get("name") or getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise FlowDefinitionError(f"A task's name is {kind_of(name)}.", fix="Give it as name=….")
    owner = f"Task {name!r}"
    for option in options:
        if option == "agents":
            raise FlowDefinitionError(f"{owner} is done by its function, so it takes no agents.", fix="Leave them out.")
        if option not in _TASK_OPTIONS:
            raise FlowDefinitionError(f"{owner}: there is no option {option!r}.", fix=did_you_mean(option, _TASK_OPTIONS))
    check_text(owner, "its objective", options.get("objective", ""))
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise FlowDefinitionError(f"{owner}: its function yields.", fix="Let it return its result.")
    return name


def _return_type(function: Callable[..., Any], name: str) -> Any:
    """Returns the annotated return type; str if there is none."""
    try:
        returned = get_type_hints(function).get("return", str)
    except Exception as error:
        problem = f"Task {name!r}: the annotations of its function cannot be read: {error}."
        raise FlowDefinitionError(
            problem, fix="Import what they name where the function is defined, or give result=…."
        ) from None
    return str if returned in (None, type(None), Any) else returned


def _parameters(function: Callable[..., Any], task: Task) -> Sequence[str]:
    """Returns the names of the parameters to fill. Raises FlowDefinitionError for one that nothing fills."""
    known = _TURN_PARAMETERS | set(task.depends_on)
    needs = f" ({', '.join(task.depends_on)})" if task.depends_on else ""
    names = []
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        problem = f"Task {task.name!r}: the parameters of its function are not known."
        raise FlowDefinitionError(problem, fix="Call it in a function of your own.") from None
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            problem = f"Task {task.name!r}: the parameter {parameter.name!r} cannot be filled by its name."
            raise FlowDefinitionError(problem, fix="Take * and / out of the function's parameters.")
        if parameter.name in known:
            names.append(parameter.name)
        elif parameter.default is parameter.empty:
            raise FlowDefinitionError(
                f"Task {task.name!r}: its function wants {parameter.name!r}, which nothing fills.",
                fix=f"A parameter is context, request, or a task named in depends_on{needs}, or has a default.",
            )
    return names
