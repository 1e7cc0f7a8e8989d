"""What was done is told as done, however the step ends that it was done in."""

from collections.abc import Callable
from typing import Any

import pytest
from llm_play import noted, told
from runner_play import ask

from turnwise import AgentContext, Content, Runner
from turnwise.agents.llm import LlmAgent
from turnwise.facts.content import ToolResultPart
from turnwise.facts.errors import SessionMissing, StoreFull, ToolFailed
from turnwise.ports.tool import Tool
from turnwise.testing.models import ScriptedModel, calls

Process = Callable[..., Runner]


def work() -> tuple[list[str], Tool, Tool]:
    """What was done; a tool that is called at once, and one that a person is asked about."""
    done: list[str] = []
    return done, noted(done, "pay", "paid"), noted(done, "ship", "shipped", confirm=True)


def agreed(result: Any) -> Content:
    (wait,) = [event.actions.awaits.id for event in result.events if event.actions.awaits]
    return Content(role="user", parts=(ToolResultPart(call_id=wait, tool="confirm", result=True),))


async def test_a_message_while_another_call_waits_finds_what_was_done(process: Process) -> None:
    done, pay, ship = work()
    model = ScriptedModel([calls("pay"), calls("ship")], "Yes.")
    runner = process(LlmAgent("clerk", model=model, tools=[pay, ship]))
    await ask(runner, "go")
    await ask(runner, "Did you pay?")
    results = [part for message in model.requests[-1].messages for part in message.tool_results]
    assert done == ["pay"]
    assert [(part.tool, part.result) for part in results] == [("pay", "paid"), ("ship", "The result is still to come.")]


async def test_what_was_told_while_waiting_is_not_told_again(process: Process) -> None:
    done, pay, ship = work()
    model = ScriptedModel([calls("pay"), calls("ship")], "Done.")
    runner = process(LlmAgent("clerk", model=model, tools=[pay, ship]))
    first = await ask(runner, "go")
    second = await ask(runner, agreed(first))
    assert (done, second.text) == (["pay", "ship"], "Done.")
    assert [part.result for part in model.requests[-1].messages[-1].tool_results] == ["paid", "shipped"]
    assert (told(first), told(second)) == (["paid"], ["shipped"])


@pytest.mark.parametrize("reachable", [True, False])
async def test_a_call_that_was_made_needs_its_tool_no_more(process: Process, *, reachable: bool) -> None:
    done, pay, ship = work()

    class Server:
        is_up = True

        async def tools(self, context: AgentContext) -> list[Tool]:
            if not self.is_up:
                raise ToolFailed("The bank cannot be reached.")
            return [pay]

        async def close(self) -> None:
            return None

    server, model = Server(), ScriptedModel([calls("pay"), calls("ship")], "Done.")
    first = await ask(process(LlmAgent("clerk", model=model, tools=[server, ship])), "go")
    server.is_up = reachable
    await ask(process(LlmAgent("clerk", model=model, tools=[server, ship])), agreed(first))
    assert done == ["pay", "ship"]
    assert [part.result for part in model.requests[-1].messages[-1].tool_results] == ["paid", "shipped"]


@pytest.mark.parametrize("error", [SessionMissing("Session 'x' does not exist."), StoreFull("No space.")])
async def test_an_error_of_another_session_or_store_is_the_tools(process: Process, error: Exception) -> None:
    async def other() -> str:
        raise error

    result = await ask(process(LlmAgent("clerk", model=ScriptedModel(calls("other"), "Done."), tools=[other])), "go")
    assert (told(result), result.text) == ([f"{type(error).__name__}: {error}"], "Done.")


async def test_a_toolset_that_breaks_does_not_end_the_turn(process: Process) -> None:
    class Broken:
        async def tools(self, context: AgentContext) -> list[Tool]:
            raise KeyError("bank")

        async def close(self) -> None:
            return None

    model = ScriptedModel(calls("pay"), "Done.")
    result = await ask(process(LlmAgent("clerk", model=model, tools=[Broken()])), "go")
    assert result.text == "Done."
    assert "There is no tool 'pay' now." in str(told(result)[0])
