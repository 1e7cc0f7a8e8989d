"""One run of a flow at the terminal."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from turnwise import AgentContext, Runner, SqlSessionStore, agent
from turnwise.agents.llm import LlmAgent
from turnwise.cli.exits import FAILED, OK
from turnwise.cli.flow_run import FlowConversation, PendingQuestion
from turnwise.facts.content import Content, ToolCallPart
from turnwise.facts.messages import MessageContext
from turnwise.flows.flow import Flow
from turnwise.flows.planned import AnyFlow, PlannedFlow
from turnwise.flows.tasks import Task
from turnwise.ports.model import ModelRequest
from turnwise.testing.models import FunctionModel, calls
from turnwise.tools.function import tool


@agent
async def boss(context: AgentContext) -> str:
    return f"It is {(await context.ask('Is it good?')).text}."


@agent
def grumpy(message: str) -> str:
    raise ValueError("no mood")


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


@asynccontextmanager
async def talking(flow: AnyFlow) -> AsyncIterator[FlowConversation]:
    runner = Runner(flow, store=SqlSessionStore("sqlite:///:memory:"))
    yield FlowConversation(runner, flow, runner.key("local", "s"), MessageContext())
    await runner.close()


async def test_a_question_is_asked_and_answered(capsys: pytest.CaptureFixture[str]) -> None:
    async with talking(Flow("check", [Task("approve", agents=[boss])])) as talk:
        await talk.send("Go")
        asked = await talk.asked()
        assert asked is not None
        talk.ask(asked)
        assert (asked.answer("  "), asked.answer("fine")) == (None, "fine")
        assert talk.finish() == OK
        await talk.send("fine")
        assert await talk.asked() is None
        assert talk.finish() == OK
    said = capsys.readouterr()
    assert said.out == "It is fine.\n"
    assert "boss asks: Is it good?\nIt waits. Continue with: turnwise flow resume --session s\n" in said.err
    assert said.err.endswith("✓ approve successful · It is fine.\ncomplete · 1 turn\n")


async def test_leave_for_a_tool_is_given_or_not(capsys: pytest.CaptureFixture[str]) -> None:
    def thinks(request: ModelRequest) -> ToolCallPart:
        told = request.messages[-1].tool_results
        return calls("task_succeeded", {"result": str(told[0].result)}) if told else calls("pay", {"amount": 3})

    payer = LlmAgent("payer", model=FunctionModel(thinks), tools=[pay])
    async with talking(Flow("bills", [Task("settle", agents=[payer])])) as talk:
        await talk.send("Go")
        asked = await talk.asked()
        assert asked is not None
        assert asked.answer("well") is None
        answer = asked.answer("y")
        assert isinstance(answer, Content)
        await talk.send(answer)
        assert talk.finish() == OK
    assert capsys.readouterr().out == "paid 3\n"


async def test_a_run_that_failed_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    """D10."""
    async with talking(Flow("sad", [Task("smile", agents=[grumpy])])) as talk:
        await talk.send("Go")
        assert talk.finish() == FAILED
    said = capsys.readouterr()
    assert said.out == ""
    assert "failed · 1 turn\nerror[agent.flow_failed]: The flow 'sad' did not get done: 'smile' failed" in said.err


async def test_a_limit_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    idle = [LlmAgent(name, model=FunctionModel(lambda _: calls("end_turn", {}))) for name in ("idle", "idler")]
    async with talking(Flow("long", [Task("think", agents=idle)], max_turns=2)) as talk:
        await talk.send("Go")
        assert talk.finish() == FAILED
    assert "limit:turns · 2 turns" in capsys.readouterr().err


async def test_a_planner_that_asks_is_answered_and_its_plan_shown(capsys: pytest.CaptureFixture[str]) -> None:
    @agent
    async def planner(context: AgentContext) -> dict[str, object]:
        name = (await context.ask("What is it called?")).text
        return {"tasks": [{"name": name, "agents": ["boss"]}]}

    async with talking(PlannedFlow("plans", planner=planner, agents=[boss])) as talk:
        await talk.send("Go")
        for answer in ("approve", "fine"):
            asked = await talk.asked()
            assert asked is not None
            talk.ask(asked)
            await talk.send(answer)
        assert talk.finish() == OK
    said = capsys.readouterr()
    assert said.out == "It is fine.\n"
    assert said.err.startswith("planner asks: What is it called?\nplan · 1 task\n")
    assert said.err.endswith("boss asks: Is it good?\n✓ approve successful · It is fine.\ncomplete · 1 turn\n")


async def test_a_run_that_got_no_plan_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    async with talking(PlannedFlow("plans", planner=grumpy, agents=[boss])) as talk:
        await talk.send("Go")
        assert talk.finish() == FAILED
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error[agent.failed]: ")


def test_nothing_is_no_answer() -> None:
    assert PendingQuestion("a", "b").answer("") is None
