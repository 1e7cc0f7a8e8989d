"""Detects calls that an agent made without `await`. Such a call does nothing, and Python warns too late."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from turnwise.facts.errors import AgentFailed

P = ParamSpec("P")
T = TypeVar("T")


class Unawaited:
    """The calls of one agent run that were not awaited yet. A sync function may add calls from a thread."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, Coroutine[Any, Any, Any]]] = []

    def note(self, call: str, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._calls = [*self._open(), (call, coroutine)]

    async def check(self, agent: str) -> None:
        """Raises AgentFailed with the first call that was never awaited. Lets pending tasks start before it checks."""
        if self._open():
            await asyncio.sleep(0)
        forgotten, self._calls = self._open(), []
        for _, coroutine in forgotten:
            coroutine.close()
        if forgotten:
            call = forgotten[0][0]
            raise AgentFailed(
                f"Agent {agent!r} called {call}() without `await`, so nothing was done.",
                fix=f"Write `await {call}(…)`, in an `async def` function.",
            )

    def _open(self) -> list[tuple[str, Coroutine[Any, Any, Any]]]:
        return [each for each in self._calls if inspect.getcoroutinestate(each[1]) == inspect.CORO_CREATED]


class _Notes(Protocol):
    unawaited: Unawaited


S = TypeVar("S", bound=_Notes)


def awaited(
    call: str,
) -> Callable[[Callable[Concatenate[S, P], Coroutine[Any, Any, T]]], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]]:
    """Marks a method that must be awaited.

    Args:
        call: The expression that the agent's developer writes, such as `context.ask`.
    """

    def wrap(
        method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
        method.__qualname__ = call  # Python's own errors show this name

        @wraps(method)
        def noted(self: S, *arguments: P.args, **named: P.kwargs) -> Coroutine[Any, Any, T]:
            coroutine = method(self, *arguments, **named)
            self.unawaited.note(call, coroutine)
            return coroutine

        return noted  # type: ignore[return-value]  # a wrapper's `self` may be given by name, too

    return wrap


F = TypeVar("F", bound=Callable[..., Any])


def named(place: str) -> Callable[[F], F]:
    """Sets the name that Python shows in its own errors, such as for a missing argument."""

    def rename(method: F) -> F:
        method.__qualname__ = place
        return method

    return rename


def no_attribute(place: str, hint: str = "") -> Callable[[Any, str], Any]:
    """Returns a `__getattr__` that raises a readable AttributeError.

    Args:
        place: The expression that lacks the attribute, such as `context.state`.
        hint: Text appended to the error; `{}` is replaced by the attribute's name.
    """

    def __getattr__(self: Any, name: str) -> Any:
        more = f" {hint.format(name)}" if hint else ""
        raise AttributeError(f"{place} has no attribute {name!r}.{more}", name=name, obj=self)

    return __getattr__
