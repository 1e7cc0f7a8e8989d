"""Spans of messages that are really answered."""

import asyncio
from collections.abc import Callable
from typing import Any

from opentelemetry.trace import StatusCode
from runner_play import ask, reason, soon
from telemetry_play import SECRET, TO_FRONT, Traced, about, helpdesk, reply

from turnwise import (
    AgentContext,
    Flow,
    LlmAgent,
    Parallel,
    Runner,
    Sequential,
    agent,
    tool,
)
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.built_in import AgentTool

Make = Callable[..., Runner]


async def test_a_message_is_a_tree_of_spans(make_runner: Make) -> None:
    """C10: what decided, whose turn it was, what its model and its tools did, and how it ended."""
    traced = Traced()
    runner = make_runner(helpdesk(), hooks=[traced.hooks])
    assert reason(await ask(runner, SECRET, **TO_FRONT)) == "completed"
    assert traced.tree() == [
        "turnwise.message",
        "  invoke_agent front",
        "    chat model",
        "    execute_tool look_up",
        "    execute_tool look_up",
        "    chat model",
        "    execute_tool transfer_to_agent",
        "  invoke_agent billing",
        "    chat gpt-5",
    ]
    (root,) = traced.roots
    assert about(root, "turnwise.end", "turnwise.attempt", "turnwise.app") == ("completed", 1, "app")
    assert about(root, "turnwise.selection.agent", "turnwise.selection.method") == ("front", "direct_routing")
    (decided,) = root.events
    assert decided.name == "turnwise.selection"
    assert dict(decided.attributes or {})["turnwise.selection.selectors"] == ("direct",)
    assert {about(span, "gen_ai.conversation.id") for span in traced.spans} == {("s",)}
    assert root.status.status_code is StatusCode.UNSET


async def test_spans_use_the_names_of_the_conventions(make_runner: Make) -> None:
    traced = Traced()
    await ask(make_runner(helpdesk(), hooks=[traced.hooks]), "hi", **TO_FRONT)
    chat = traced.span("chat gpt-5")
    assert chat.kind.name == "CLIENT"
    assert about(chat, "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.agent.name") == ("chat", "openai", "billing")
    assert about(chat, "gen_ai.request.model", "gen_ai.response.model") == ("gpt-5", "gpt-5")
    tokens = ("gen_ai.usage.input_tokens", "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.output_tokens")
    assert about(chat, *tokens) == (100, 40, 20)
    assert (chat.end_time or 0) - (chat.start_time or 0) == 2_000_000_000
    called = traced.span("execute_tool transfer_to_agent")
    assert about(called, "gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.agent.name") == (
        "execute_tool",
        "transfer_to_agent",
        "front",
    )
    assert about(called, "gen_ai.tool.call.id")[0].startswith("call-")
    turn = traced.span("invoke_agent billing")
    assert about(turn, "gen_ai.operation.name", "gen_ai.agent.name") == ("invoke_agent", "billing")
    for span in traced.spans[1:]:
        (root,) = traced.roots
        assert (root.start_time or 0) <= (span.start_time or 0) <= (span.end_time or 0) <= (root.end_time or 0), span.name


async def test_what_models_took_is_a_metric_of_the_conventions(make_runner: Make) -> None:
    traced = Traced()
    await ask(make_runner(helpdesk(reply("done")), hooks=[traced.hooks]), "hi", **TO_FRONT)
    spent = {about["gen_ai.token.type"]: point.sum for about, point in traced.points("gen_ai.client.token.usage")}
    assert spent == {"input": 100, "output": 20}
    ((told, took),) = traced.points("gen_ai.client.operation.duration")
    assert (took.sum, took.count) == (2.0, 1)
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.response.model": "gpt-5",
    }


async def test_spans_hold_nothing_of_what_is_said(make_runner: Make) -> None:
    """Neither the user's words, nor a tool's arguments and results, nor an agent's answer; with an option, all of that."""

    async def told(**options: Any) -> str:
        traced = Traced(**options)
        runner = make_runner(helpdesk(), hooks=[traced.hooks])
        await ask(runner, SECRET, **TO_FRONT)
        return traced.texts()

    shy = await told()
    assert "Rex" not in shy
    assert "for the vet" not in shy
    open_ = await told(content=True)
    assert f"found {SECRET}" in open_
    assert "It is for the vet." in open_
    assert "gen_ai.input.messages" in open_
    assert "gen_ai.tool.call.arguments" in open_
    assert "turnwise.selection.reason" in open_


async def test_agents_below_others_are_spans_below_theirs(make_runner: Make) -> None:
    """A41: those that run side by side begin together, whoever is done first."""
    traced = Traced()

    @agent
    async def first(context: AgentContext) -> str:
        await context.step(f"charge:{SECRET}", lambda: 1)
        return "first"

    @agent
    async def second() -> str:
        return "second"

    @agent
    async def last() -> str:
        return "last"

    root = Sequential("all", [Parallel("both", [first, second]), last])
    await ask(make_runner(root, hooks=[traced.hooks]), "hi")
    assert traced.tree() == [
        "turnwise.message",
        "  invoke_agent all",
        "    invoke_agent both",
        "      invoke_agent second",
        "      invoke_agent first",
        "        turnwise.step",
        "    invoke_agent last",
    ]
    times = {span.name.removeprefix("invoke_agent "): (span.start_time, span.end_time) for span in traced.spans}
    assert times["first"][0] == times["second"][0] == times["both"][0]
    assert times["last"][0] == times["both"][1] == max(times["first"][1] or 0, times["second"][1] or 0)
    assert about(traced.span("turnwise.step"), "turnwise.step.key") == ("charge",)
    assert "Rex" not in traced.texts()


async def test_an_agent_that_a_tool_asks_is_below_the_tool(make_runner: Make) -> None:
    traced = Traced()

    @agent
    async def expert() -> str:
        return "42"

    front = LlmAgent(
        "front",
        model=ScriptedModel(calls("ask_expert", {"message": "?"}), "It is 42."),
        tools=[AgentTool("expert")],
        instructions="Help.",
        children=[expert],
    )
    await ask(make_runner(front, hooks=[traced.hooks]), "hi", **TO_FRONT)
    assert traced.tree()[2:] == [
        "    chat model",
        "    execute_tool ask_expert",
        "      invoke_agent expert",
        "    chat model",
    ]


async def test_a_flow_is_a_tree_of_spans(make_runner: Make) -> None:
    traced = Traced()
    flow = Flow("trip", description="Plans.")

    @flow.task
    def weather() -> str:
        return "rain"

    @flow.task(depends_on=["weather"])
    def plan(weather: str) -> str:
        return f"take a coat for the {weather}"

    assert reason(await ask(make_runner(flow, hooks=[traced.hooks]), "hi")) == "completed"
    assert [line for line in traced.tree() if "step" not in line] == [
        "turnwise.message",
        "  invoke_agent trip",
        "    invoke_agent weather",
        "    invoke_agent plan",
    ]
    trip = traced.span("invoke_agent trip")
    chosen = [event.attributes or {} for event in trip.events if event.name == "turnwise.selection"]
    assert [each["turnwise.selection.agent"] for each in chosen] == ["weather", "plan"]


async def test_a_failure_is_on_the_agent_that_failed_and_on_the_whole(make_runner: Make) -> None:
    """A20"""
    traced = Traced()

    @agent
    async def fine() -> str:
        return "fine"

    @agent
    async def bad() -> str:
        raise ValueError(SECRET)

    assert reason(await ask(make_runner(Sequential("all", [fine, bad]), hooks=[traced.hooks]), "hi")) == "failed"
    errors = {span.name: about(span, "error.type")[0] for span in traced.spans if not span.status.is_ok}
    assert errors == {"turnwise.message": "failed", "invoke_agent bad": "agent.failed"}
    assert "Rex" not in traced.texts()


async def test_tools_that_fail_and_tools_that_do_not_exist(make_runner: Make) -> None:
    """A37: one that a model made up was never called, and has no span."""
    traced = Traced()

    @tool
    async def broken() -> str:
        raise RuntimeError(SECRET)

    front = LlmAgent(
        "front",
        model=ScriptedModel([calls("broken"), calls("ghost", {"x": 1})], "Sorry."),
        tools=[broken],
        instructions="Help.",
    )
    assert reason(await ask(make_runner(front, hooks=[traced.hooks]), "hi")) == "completed"
    assert [name for name in traced.tree() if "tool" in name] == ["    execute_tool broken"]
    assert about(traced.span("execute_tool broken"), "error.type") == ("agent.tool",)
    assert "Rex" not in traced.texts()


async def test_a_tool_that_is_broken_off_has_a_span(make_runner: Make) -> None:
    """A23: it is what the time went into."""
    traced, began = Traced(), asyncio.Event()

    @tool
    async def endless() -> str:
        began.set()
        await asyncio.Event().wait()
        return ""

    front = LlmAgent("front", model=ScriptedModel(calls("endless")), tools=[endless], instructions="Help.")
    invocation = await make_runner(front, hooks=[traced.hooks]).start("hi", user="ada", session="s")
    await soon(began.wait())
    await invocation.cancel()
    assert reason(await invocation.result()) == "cancelled"
    assert about(traced.span("execute_tool endless"), "error.type") == ("agent.tool",)
    assert about(traced.roots[0], "turnwise.end") == ("cancelled",)
