"""Guardrails on what goes beside an answer: briefs, names in tags, results that are recorded as steps."""

from typing import Any

import pytest

from turnwise import AgentContext, Event, Runner, SqlSessionStore, agent
from turnwise.agents.llm import LlmAgent
from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.errors import TransferRefused
from turnwise.guardrails.secrets import Secrets
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place
from turnwise.testing.models import ScriptedModel, calls

SECRET = "sk-abcdefghijklmnopqrstuvwx123456"
OWN = "sk-zyxwvutsrqponmlkjihgfedcba987654"


class Blocks:
    name, reach = "blocks", 100

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        return GuardrailVerdict("block", reason="A secret.") if SECRET in content.model_dump_json() else ALLOW


async def logged(root: Any, guardrail: Any) -> list[Event]:
    """The log after one turn, which never holds the secret."""
    store = SqlSessionStore("sqlite://")
    runner = Runner(root, store=store, guardrails=[guardrail])
    invocation = await runner.start("go", user="ann", session="s")
    seen = [event async for event in invocation.events()]
    events = await store.events(runner.key("ann", "s"))
    await runner.close()
    assert not [event for event in (*events, *seen) if SECRET in event.model_dump_json()]
    return list(events)


def guarded(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.author, each.action) for event in events for each in event.actions.guarded]


@agent
async def back(message: str) -> str:
    return f"I read: {message}"


async def test_a_brief_is_rewritten() -> None:
    @agent(children=[back])
    async def front(context: AgentContext) -> None:
        await context.transfer("back", message=f"use {SECRET}")

    events = await logged(front, Secrets())
    assert events[-1].text == "I read: use [key]"
    assert guarded(events) == [("front", "rewrite")]


async def test_a_blocked_brief_is_a_refused_transfer() -> None:
    @agent(children=[back])
    async def front(context: AgentContext) -> str:
        with pytest.raises(TransferRefused, match="'blocks' blocked the message: A secret"):
            await context.transfer("back", message=f"use {SECRET}")
        return "I stay."

    events = await logged(front, Blocks())
    assert (events[-1].author, events[-1].text) == ("front", "I stay.")
    assert guarded(events) == [("front", "block")]


@pytest.mark.parametrize(
    ("guardrail", "shown"), [(Secrets(), "'use [key] xxxx"), (Blocks(), "a name that is withheld")], ids=["rewrite", "block"]
)
async def test_a_name_that_was_made_up_for_a_transfer_is_judged_and_cut(guardrail: Any, shown: str) -> None:
    """A37: it is told to the agent, and stands in the log when the agent fails of it."""

    @agent(children=[back])
    async def front(context: AgentContext) -> None:
        await context.transfer(f"use {SECRET} {'x' * 500}\n")

    events = await logged(front, guardrail)
    (error,) = [event.error for event in events if event.error]
    assert error.code == "agent.transfer_refused"
    assert shown in error.message
    assert "x" * 65 not in error.message
    assert SECRET not in str(events)
    assert [who for who, _ in guarded(events)] == ["front"]


@pytest.mark.parametrize(("named", "kept"), [(SECRET, ""), ("Front.", "Front."), ("self", "self")])
async def test_of_a_tag_only_a_known_name_is_kept(named: str, kept: str) -> None:
    """B6"""

    @agent
    async def front(message: str) -> str:
        return f"hello <next>@{named}</next>"

    events = await logged(front, Secrets())
    assert [event.actions.next for event in events if event.author == "front" and event.content] == [kept]


@pytest.mark.parametrize(("guardrail", "told"), [(Secrets(), ("key [key]", False)), (Blocks(), ("A secret.", True))])
async def test_the_result_of_a_tool_is_recorded_as_guardrails_leave_it(guardrail: Any, told: tuple[str, bool]) -> None:
    async def lookup() -> str:
        return f"key {SECRET}"

    model = ScriptedModel(calls("lookup"), "Done.")
    events = await logged(LlmAgent("clerk", model=model, tools=[lookup]), guardrail)
    steps = [step.value for event in events for step in event.actions.steps if isinstance(step.value, dict)]
    assert {"result": told[0], "failed": told[1]} in steps
    results = [part for event in events if event.content for part in event.content.tool_results]
    assert [(part.result, part.failed) for part in results] == [told]
    assert SECRET not in str(model.requests)


async def test_a_step_of_ones_own_is_nobodys_to_judge() -> None:
    given: list[Any] = []

    @agent
    async def front(context: AgentContext) -> str:
        given.append(await context.step("plain", lambda: {"text": OWN}))
        given.append(await context.step("result", lambda: ToolResultPart(call_id="1", result=f"key {SECRET}")))
        return "Done."

    await logged(front, Secrets())
    assert given == [{"text": OWN}, {"result": "key [key]", "failed": False}]
