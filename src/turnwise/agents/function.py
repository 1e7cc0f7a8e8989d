"""Plain functions as agents: sync or async, returning or yielding."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, overload

from pydantic import ValidationError

from turnwise.agents.members import members_of
from turnwise.facts.content import Content, DataPart
from turnwise.facts.errors import AgentDefinitionError, AgentFailed
from turnwise.facts.events import End, Event
from turnwise.facts.tree import AgentCard, Pattern
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext, is_stopped
from turnwise.tools.event_loop import in_thread

Style = Literal["returns", "awaits", "yields", "awaits and yields"]

_COMPLETED = End()
_EXHAUSTED = object()


class FunctionAgent:
    """An agent that calls a function.

    The parameters are filled by name: `message` is the text, or the whole Content if annotated so, and `context` is the
    AgentContext. Each returned or yielded value becomes an event: a str, a Content, an Event, a dict or list as data.
    None emits nothing.
    """

    def __init__(self, function: Callable[..., Any], card: AgentCard, children: Sequence[Agent] = ()) -> None:
        self.card = card
        self.children = members_of(card.name, children)
        self._function = function
        self._style = _style(function)
        self._parameter_kinds = _parameters(function, card.name)

    def __repr__(self) -> str:
        return f"FunctionAgent({self.card.name!r})"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the undecorated function directly: no agent is selected and nothing is recorded."""
        return self._function(*arguments, **named)

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        """Calls the function with what its parameters ask for, and yields its values as events."""
        arguments = {name: _argument(kind, context) for name, kind in self._parameter_kinds.items()}
        if self._style == "awaits and yields":
            values = self._function(**arguments)
            while (value := await _await_user_code(anext(values, _EXHAUSTED))) is not _EXHAUSTED:
                if (event := _event(value, context)) is not None:
                    yield event
        elif self._style == "yields":
            produced = iter(self._function(**arguments))
            while (value := await in_thread(next, produced, _EXHAUSTED)) is not _EXHAUSTED:
                if (event := _event(value, context)) is not None:
                    yield event
        else:
            if self._style == "awaits":
                value = await _await_user_code(self._function(**arguments))
            else:
                value = await in_thread(self._function, **arguments)
            if (event := _event(value, context)) is not None:
                # A returned value is final, so the runner can store it and the turn's end in one commit.
                yield event.with_actions(end=_COMPLETED)


@overload
def agent(function: Callable[..., Any], /) -> FunctionAgent: ...
@overload
def agent(
    *,
    name: str | None = None,
    description: str | None = None,
    patterns: Sequence[str | Pattern | Mapping[str, Any]] = (),
    children: Sequence[Agent] = (),
    **card: Any,
) -> Callable[[Callable[..., Any]], FunctionAgent]: ...
def agent(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    patterns: Sequence[str | Pattern | Mapping[str, Any]] = (),
    children: Sequence[Agent] = (),
    **card: Any,
) -> FunctionAgent | Callable[[Callable[..., Any]], FunctionAgent]:
    """Turns a function into an agent: `@agent` or `@agent(patterns=[…])`.

    Args:
        name: The agent's name; by default the function's name.
        description: By default the first line of the function's docstring.
        patterns: Regular expressions, or Pattern values with a confidence.
        children: The agents below this one.
        card: Other fields of AgentCard.

    Raises:
        AgentDefinitionError: A field or a parameter of the function is not valid; the message names it.
    """

    def wrap(function: Callable[..., Any]) -> FunctionAgent:
        fields: dict[str, Any] = {
            "name": name or function.__name__,
            "description": _first_line(function) if description is None else description,
            "patterns": patterns,
            **card,
        }
        return FunctionAgent(function, make_card(fields), children)

    return wrap if function is None else wrap(function)


def make_card(fields: Mapping[str, Any]) -> AgentCard:
    """Builds a card from plain values: lists are accepted for tuples, and strings for patterns.

    Raises:
        AgentDefinitionError: A field is not valid. The message names the agent, the field and the problem.
    """
    patterns = fields.get("patterns", ())
    plain = [_pattern(each) for each in patterns] if isinstance(patterns, list | tuple) else patterns
    try:
        return AgentCard.model_validate({**fields, "patterns": plain}, strict=False, extra="forbid")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise AgentDefinitionError(
            f"Agent {fields.get('name')!r}: {place}: {first['msg']}.", fix=f"Fields: {', '.join(AgentCard.model_fields)}."
        ) from None


def _pattern(pattern: Any) -> Any:
    if isinstance(pattern, str):
        return {"regex": pattern}
    return pattern.model_dump() if isinstance(pattern, Pattern) else pattern


def _first_line(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _style(function: Callable[..., Any]) -> Style:
    """Returns how the function gives its values: returned or yielded, awaited or not."""
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    if inspect.isasyncgenfunction(called):
        return "awaits and yields"
    if inspect.iscoroutinefunction(called):
        return "awaits"
    return "yields" if inspect.isgeneratorfunction(called) else "returns"


def _parameters(function: Callable[..., Any], name: str) -> dict[str, Literal["text", "content", "context"]]:
    """Returns what to pass to each parameter. Raises AgentDefinitionError for a parameter that nothing fills."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise AgentDefinitionError(f"Agent {name!r}: {function!r} is not a function that can be called: {error}.") from None
    kinds: dict[str, Literal["text", "content", "context"]] = {}
    for parameter in parameters:
        if parameter.name == "context":
            kinds["context"] = "context"
        elif parameter.name == "message":
            kinds["message"] = "content" if parameter.annotation in (Content, "Content") else "text"
        elif parameter.default is parameter.empty and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise AgentDefinitionError(
                f"Agent {name!r}: its function wants {parameter.name!r}, which nothing fills.",
                fix="Parameters are `message`, `context`, or have a default.",
            )
        if parameter.name in kinds and parameter.kind is parameter.POSITIONAL_ONLY:
            raise AgentDefinitionError(f"Agent {name!r}: {parameter.name!r} is positional only.", fix="Remove the slash.")
    return kinds


async def _await_user_code(awaitable: Awaitable[Any]) -> Any:
    """Awaits the function's result. A GeneratorExit that the function raises becomes a RuntimeError.

    Python would otherwise take it for the end of `run`.
    """
    task = asyncio.current_task()
    try:
        return await awaitable
    except GeneratorExit as error:
        if is_stopped(error, task):
            raise
        raise RuntimeError("The function raised GeneratorExit.").with_traceback(error.__traceback__) from error


def _argument(kind: str, context: AgentContext) -> Any:
    if kind == "context":
        return context
    return context.message if kind == "content" else context.message.text


def _event(value: Any, context: AgentContext) -> Event | None:
    """Returns a value of the function as an event; None for None. Raises AgentFailed for other types."""
    if value is None:
        return None
    if isinstance(value, Event):
        return value
    if isinstance(value, str | Content):
        return context.event(value)
    if isinstance(value, dict | list):
        return context.event(Content(parts=(DataPart(data=value),)))
    if inspect.iscoroutine(value):
        value.close()
        raise AgentFailed(
            f"Agent {context.card.name!r} gave what `{value.__qualname__.rpartition('.')[2]}()` returned, without `await`.",
            fix="Write `await` before the call, in an `async def` function.",
        )
    raise AgentFailed(
        f"Agent {context.card.name!r} gave a {type(value).__name__}, which cannot be said.",
        fix="Return or yield a str, Content, Event, dict, list or None.",
    )
