"""Tools of toolsets: asked for once a run, done without when they are away, closed with the runner (decision 7)."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from llm_play import told
from runner_play import ask

from turnwise import AgentContext, Runner
from turnwise.agents.llm import LlmAgent
from turnwise.facts.errors import ToolFailed
from turnwise.ports.tool import Tool
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.function import tool
from turnwise.transcript.view import Budget

Process = Callable[..., Runner]


def clerk(*replies: Any, tools: Sequence[Any], **options: Any) -> LlmAgent:
    return LlmAgent("clerk", model=ScriptedModel(*replies, "Done."), tools=tools, **options)


class Server:
    """A toolset that is down the first time."""

    def __init__(self, *tools: Tool, down: int = 0) -> None:
        self._tools, self._down, self.asked, self.closed = tools, down, 0, False

    async def tools(self, context: AgentContext) -> Sequence[Tool]:
        self.asked += 1
        if self.asked <= self._down:
            raise ToolFailed("The server 'stock' is out of reach.")
        return self._tools

    async def close(self) -> None:
        self.closed = True


async def test_tools_of_a_toolset_are_asked_for_once_a_run(process: Process) -> None:
    @tool
    async def stock(item: str) -> int:
        return 3

    server = Server(stock)
    model = ScriptedModel(calls("stock", {"item": "tea"}), "Three.")
    result = await ask(process(LlmAgent("clerk", model=model, tools=[server])), "go")
    assert (told(result), server.asked) == ([3], 1)
    assert [spec.name for spec in model.requests[0].tools] == ["stock"]


async def test_toolsets_are_closed_with_the_runner(process: Process) -> None:
    server = Server()
    await process(LlmAgent("clerk", model=ScriptedModel(), tools=[server])).close()
    assert server.closed


async def test_a_toolset_that_is_down_is_done_without_and_asked_again(process: Process) -> None:
    """Decision 7: the model knows that some of its tools are missing."""

    @tool
    async def stock(item: str) -> int:
        return 3

    async def works() -> str:
        return "fine"

    model = ScriptedModel(calls("works"), calls("stock", {"item": "tea"}), "Three.")
    result = await ask(process(LlmAgent("clerk", model=model, tools=[Server(stock, down=1), works])), "go")
    assert told(result) == ["fine", 3]
    first, second, third = (str(request.messages) for request in model.requests)
    assert "Some of your tools cannot be had now." in first
    assert "out of reach" not in first + second  # a server's words are no instruction
    assert second.count("cannot be had") == third.count("cannot be had") == 1  # as recorded, and revoked once
    assert second.count("no longer apply") == third.count("no longer apply") == 1
    assert [[spec.name for spec in request.tools] for request in model.requests[:2]] == [["works"], ["works", "stock"]]


async def test_of_two_tools_with_one_name_the_first_counts(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    async def stock() -> str:
        return "own"

    server = Server(tool(name="stock")(lambda: "foreign"))
    result = await ask(process(clerk(calls("stock"), tools=[server, stock])), "go")
    assert told(result) == ["own"]
    assert "two tools named 'stock'" in caplog.text


async def test_of_a_toolset_that_fails_the_model_and_the_log_learn_which(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    """Decision 7."""

    class Stock:
        async def tools(self, context: AgentContext) -> Sequence[Tool]:
            raise KeyError("secret words")

        async def close(self) -> None: ...

    class Named(Stock):
        name = "till"

        async def tools(self, context: AgentContext) -> Sequence[Tool]:
            raise ToolFailed("It is closed.")

    result = await ask(process(clerk(calls("pay"), tools=[Stock(), Named(), Server(down=9)])), "go")
    (told_,) = told(result)
    assert "The toolset Stock raised KeyError." in told_
    assert "The toolset Named 'till': It is closed." in told_
    assert "The toolset Server: The server 'stock' is out of reach." in told_
    assert "secret words" not in told_
    assert "cannot have the tools of The toolset Stock" in caplog.text


async def test_tools_that_leave_no_room_for_the_conversation_fail_the_turn_unasked(process: Process) -> None:
    """Nobody is asked what cannot be answered; the error says what is too large."""

    @tool(description="words " * 500)
    async def large(item: str) -> int:
        return 3

    model = ScriptedModel("Hello.")
    worker = LlmAgent("clerk", model=model, tools=[Server(large)], history=Budget(tokens=800, events=100))
    result = await ask(process(worker), "go")
    assert result.error is not None
    assert (result.error.code, model.requests) == ("agent.failed", [])
    assert "Of the 800 tokens" in result.error.message
    assert "The largest tool is 'large'" in result.error.message


async def test_what_tools_take_is_not_there_for_the_conversation(process: Process) -> None:
    """D9."""

    @tool(description="words " * 500)
    async def large(item: str) -> int:
        return 3

    async def seen(*tools: Tool) -> int:
        model = ScriptedModel("Noted.")
        worker = LlmAgent("clerk", model=model, tools=tools, history=Budget(tokens=2_000, events=100))
        await ask(process(worker), "word " * 100)
        return sum(message.text.count("word ") for message in model.requests[0].messages)

    for _ in range(8):
        await seen()
    assert await seen() > 2 * await seen(large)
