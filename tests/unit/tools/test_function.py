import asyncio
import contextvars
import functools
import threading
from typing import Any

import pytest
from tool_play import called

from turnwise.facts.errors import ConfigError, ToolFailed
from turnwise.ports.tool import ToolCall, ToolRules
from turnwise.tools.function import FunctionTool, tool


def add(a: int, b: int = 1) -> int:
    """Adds two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


async def test_a_function_becomes_a_tool() -> None:
    made = tool(add)
    assert (made.spec.name, made.spec.description) == ("add", "Adds two numbers.")
    properties: Any = made.spec.parameters["properties"]
    assert properties["a"] == {"type": "integer", "description": "The first."}
    assert await called(made, a=1, b=2) == 3
    assert await called(made, a=1) == 2
    assert made(1, b=1) == 2


def test_name_description_and_rules_can_be_said() -> None:
    def rich(call: ToolCall) -> bool:
        return True

    made = tool(name="plus", description="Sums.", confirm=rich, later=True, seconds=3, private=True, recorded=False, last=True)(
        add
    )
    assert (made.spec.name, made.spec.description) == ("plus", "Sums.")
    assert made.rules == ToolRules(rich, True, 3, False, True, True)
    assert tool(add).rules == ToolRules(False, False, None, True, False, False)
    assert repr(made) == "FunctionTool('plus')"


async def test_what_is_not_async_runs_in_a_thread() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who")
    who.set("ada")

    @tool
    def where() -> list[Any]:
        return [threading.current_thread() is threading.main_thread(), who.get()]

    @tool
    async def here() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert await called(where) == [False, "ada"]
    assert await called(here) is True


async def test_whatever_can_be_called_can_be_a_tool() -> None:
    class Adder:
        def __init__(self, base: int) -> None:
            self.base = base

        def plus(self, a: int) -> int:
            return self.base + a

        async def __call__(self, a: int) -> int:
            return self.base + a

    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @logged
    async def later(a: int) -> int:
        return a

    assert await called(tool(Adder(1).plus), a=1) == 2
    assert await called(tool(name="adder")(Adder(2)), a=1) == 3
    assert await called(tool(later), a=4) == 4
    partial = functools.partial(add, b=10)
    assert await called(tool(name="ten")(partial), a=1) == 11


async def test_wrong_arguments_are_told_and_nothing_is_called() -> None:
    done: list[str] = []

    @tool
    def pay(amount: int) -> None:
        done.append("paid")

    with pytest.raises(ToolFailed, match="'amount': input should be a valid integer"):
        await called(pay, amount="much")
    assert done == []


async def test_what_the_function_raises_comes_as_it_is() -> None:
    @tool
    def stop() -> None:
        raise StopIteration

    @tool
    async def wrong() -> None:
        raise KeyError("order")

    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(called(stop), 30)
    with pytest.raises(KeyError, match="order"):
        await called(wrong)


def yields() -> Any:
    yield 1


async def yields_later() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (yields, {}),
        (yields_later, {}),
        (lambda: 1, {}),
        (add, {"name": "add numbers"}),
        (add, {"name": "x" * 65}),
        (add, {"name": ""}),
        (add, {"seconds": 0}),
    ],
)
def test_what_cannot_be_a_tool_is_refused(function: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        tool(**options)(function)


def test_a_tool_is_a_tool() -> None:
    from turnwise.ports.tool import Tool

    made: Tool = FunctionTool(add)
    assert made.spec.name == "add"
