"""A call of the context that was not awaited is an error that says so."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from turnwise import AgentContext, Runner, agent
from turnwise.facts.errors import AgentFailed
from turnwise.runner.turn.agent_checks import Unawaited
from turnwise.stores.artifacts.local import InMemoryArtifactStore

TOLD = "Agent 'clerk' called {}() without `await`, so nothing was done. Write `await {}(…)`, in an `async def` function."


def failure(root: Any) -> str:
    runner = Runner(root, artifacts=InMemoryArtifactStore())
    result = runner.run_sync("hi")
    assert result.error is not None
    assert result.error.code == "agent.failed"
    return result.error.message


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("context.ask", ("Your name?",)),
        ("context.say", ("Wait a moment.",)),
        ("context.transfer", ("other",)),
        ("context.call", ("other", "hello")),
        ("context.step", ("key", lambda: 1)),
        ("context.escalate", ()),
        ("context.artifacts.save", ("name", b"x")),
        ("context.artifacts.load", ("name",)),
        ("context.artifacts.list", ()),
    ],
)
def test_a_call_without_await_is_an_error(call: str, arguments: tuple[Any, ...]) -> None:
    @agent(name="clerk")
    async def clerk(context: AgentContext) -> str:
        place: Any = context
        for name in call.split(".")[1:]:
            place = getattr(place, name)
        place(*arguments)
        return "done"

    assert failure(clerk) == TOLD.format(call, call)


def test_what_was_made_of_it_is_not_said() -> None:
    @agent(name="clerk")
    async def clerk(context: AgentContext) -> str:
        name = context.ask("Your name?")
        return f"hello {name}"

    runner = Runner(clerk)
    result = runner.run_sync("hi")
    assert result.text == ""
    assert result.error is not None
    assert result.error.message == TOLD.format("context.ask", "context.ask")


def test_a_generator_that_forgot_it_fails_at_its_end() -> None:
    @agent(name="clerk")
    async def clerk(context: AgentContext) -> AsyncIterator[str]:
        yield "one"
        _ = context.say("two")

    assert failure(clerk) == TOLD.format("context.say", "context.say")


def test_a_function_that_is_not_async_cannot_call_it() -> None:
    @agent(name="clerk")
    def clerk(context: AgentContext) -> str:
        _ = context.ask("Your name?")
        return "done"

    assert failure(clerk) == TOLD.format("context.ask", "context.ask")


def test_returning_it_is_told_in_the_same_words() -> None:
    @agent(name="clerk")
    def clerk(context: AgentContext) -> Any:
        return context.ask("Your name?")

    told = (
        "Agent 'clerk' gave what `ask()` returned, without `await`. Write `await` before the call, in an `async def` function."
    )
    assert failure(clerk) == told


def test_calls_that_tasks_make_are_awaited() -> None:
    @agent(name="clerk")
    async def clerk(context: AgentContext) -> str:
        first = asyncio.create_task(context.step("one", lambda: 1))
        second = context.step("two", lambda: 2)
        return f"{await second} {await first}"

    assert Runner(clerk).run_sync("hi").text == "2 1"


async def test_what_was_awaited_is_forgotten() -> None:
    calls = Unawaited()
    for _ in range(3):
        coroutine = asyncio.sleep(0)
        calls.note("asyncio.sleep", coroutine)
        await coroutine
    await calls.check("clerk")
    calls.note("asyncio.sleep", asyncio.sleep(0))
    with pytest.raises(AgentFailed):
        await calls.check("clerk")
    await calls.check("clerk")
