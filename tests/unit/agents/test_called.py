"""A decorated function is called as before."""

from collections.abc import Iterator

import pytest

import turnwise
from turnwise import AgentContext, LlmAgent, Runner, SqlSessionStore, Task, agent
from turnwise.facts.errors import AgentDefinitionError, FlowDefinitionError
from turnwise.testing.models import ScriptedModel


@agent
def plain(message: str) -> str:
    return f"got {message}"


@agent(description="Waits.")
async def waits(message: str, context: AgentContext | None = None) -> str:
    return f"waited for {message}"


@agent
def yields(message: str) -> Iterator[str]:
    yield from message.split()


async def test_every_style_is_called_as_it_was_written() -> None:
    assert plain("a") == plain(message="a") == "got a"
    assert await waits("a") == "waited for a"
    assert list(yields("a b")) == ["a", "b"]


def test_a_message_needs_neither_user_nor_session() -> None:
    """Each is then a conversation of its own."""
    runner = Runner(plain, store=SqlSessionStore("sqlite://"))
    first, second = runner.run_sync("hi"), runner.run_sync("hi")
    assert first.text == second.text == "got hi"
    assert len(first.events) == len(second.events)
    assert first.invocation_id != second.invocation_id


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert turnwise.__version__ == version("turnwise")


def test_an_agent_that_is_given_as_a_tool_is_still_no_function() -> None:
    with pytest.raises(AgentDefinitionError, match="agent 'plain' is no tool"):
        LlmAgent("clerk", model=ScriptedModel(), tools=[plain])
    with pytest.raises(FlowDefinitionError, match="is no tool"):
        Task("write", objective="Write it", agents=["clerk"], tools=[plain])
