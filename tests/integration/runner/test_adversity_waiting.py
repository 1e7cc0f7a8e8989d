"""Waits under adversity: what precedes a question, who may answer it, how it is closed (A6, A23, A38, A41, A42, C20)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from runner_play import ask, key, log, reason

from turnwise import AgentContext, Content, Limits, Loop, Parallel, RunConfig, Runner, Sequential, agent
from turnwise.agents.function import FunctionAgent
from turnwise.facts.content import ToolResultPart
from turnwise.facts.errors import AgentFailed, UnknownToolCall
from turnwise.facts.events import ErrorInfo, Event
from turnwise.facts.messages import MessageContext
from turnwise.ports.guardrail import GuardrailVerdict
from turnwise.runner import Result
from turnwise.testing.fakes import CountingIssuer, FunctionGuardrail, RecordingHooks

MakeRunner = Callable[..., Runner]


def asker(name: str, question: str = "ok?", **card: Any) -> FunctionAgent:
    @agent(name=name, **card)
    async def asks(context: AgentContext) -> str:
        return f"{name} got {(await context.ask(question)).text}"

    return asks


def tool_asker(name: str, **card: Any) -> FunctionAgent:
    @agent(name=name, **card)
    async def asks(context: AgentContext) -> str:
        reply = await context.ask("approve?", tool="approve")
        return f"{name} did it: {reply.tool_results[0].result}"

    return asks


def result_for(result: Result) -> Content:
    call = next(call for e in result.events if e.content for call in e.content.tool_calls)
    return Content(parts=(ToolResultPart(call_id=call.call_id, result="yes"),))


async def silent_state(context: AgentContext) -> Event:
    return context.event(state_delta={"seen": True})


async def silent_error(context: AgentContext) -> Event:
    return context.event().replace(error=ErrorInfo(code="x", message="tool down"))


async def refused_transfer(context: AgentContext) -> Event:
    return context.event(transfer_to="nobody")


async def wordless(context: AgentContext) -> Event:
    return context.event("")


@pytest.mark.parametrize("before", [silent_state, silent_error, refused_transfer, wordless])
async def test_what_says_nothing_does_not_eat_the_question(make_runner: MakeRunner, before: Any) -> None:
    """A42: the reply reaches the agent, and nothing is recorded twice."""

    @agent
    async def asks(context: AgentContext) -> AsyncIterator[Any]:
        yield await before(context)
        yield f"hello {(await context.ask('Name?')).text}"

    runner = make_runner(asks)
    assert (await ask(runner, "hi")).text == "Name?"
    length = len(await runner.store.events(key()))
    second = await ask(runner, "Bob")
    assert (second.text, reason(second)) == ("hello Bob", "completed")
    assert [e.text for e in (await runner.store.events(key()))[length:] if e.text] == ["Bob", "hello Bob"]


async def test_a_step_is_done_once_under_one_key(make_runner: MakeRunner) -> None:
    """Decision 6: in one run, too; who asks again gets what was recorded, before a wait and after it."""
    done: list[int] = []

    def work() -> int:
        done.append(1)
        return len(done)

    @agent
    async def twice(context: AgentContext) -> str:
        first = await context.step("k", work)
        second = await context.step("k", work)
        await context.ask("go on?")
        return f"{first} {second}"

    runner = make_runner(twice)
    await ask(runner, "x")
    assert (await ask(runner, "yes")).text == "1 1"
    assert done == [1]


async def test_a_blocked_question_is_not_waited_for(make_runner: MakeRunner) -> None:
    """A18, A42."""
    block = GuardrailVerdict("block", reason="no")
    guardrail = FunctionGuardrail("g", lambda _, text: block if "SECRET" in text else None)
    runner = make_runner(asker("asks", "the SECRET?"), guardrails=[guardrail])
    result = await ask(runner, "x")
    assert (result.text, reason(result)) == ("no", "failed")
    assert "SECRET" not in str(await log(runner))
    assert (await runner.sessions.get(key())).head.invocations == {}


@pytest.mark.parametrize("changed", [{"roles": ["admin"]}, {"enabled": False}])
async def test_a_tool_result_runs_nobody_who_is_closed_to_the_caller(make_runner: MakeRunner, changed: dict[str, Any]) -> None:
    """A6, A8, C20: knowing the call's id is no permission, and who was disabled since does not run; the call stays open."""

    @agent
    async def front() -> str:
        return "front"

    def tree(**card: Any) -> FunctionAgent:
        return agent(name="root", children=[tool_asker("asks", **card), front])(lambda: "root")

    runner = make_runner(tree())
    first = await ask(runner, "x", context=MessageContext(direct_agent_id="asks"))
    after = make_runner(tree(**changed), store=runner.store, issuer=None)
    stored = await log(runner)
    with pytest.raises(UnknownToolCall):
        await ask(after, result_for(first))
    assert await log(runner) == stored
    assert (await ask(runner, result_for(first))).invocation_id == first.invocation_id


@pytest.mark.parametrize("make", [asker, tool_asker])
async def test_a_reply_does_not_give_the_floor_to_who_is_closed_to_the_caller(make_runner: MakeRunner, make: Any) -> None:
    """A42, C20: whoever held the floor would run again, with the caller's words; so it must be open to the caller too."""

    @agent(roles=["admin"])
    async def boss(context: AgentContext) -> str:
        return f"boss: {(await context.call('asks', 'go')).text}"

    asks = make("asks", resume="always")
    runner = make_runner(agent(name="root", children=[boss, asks])(lambda: "root"))
    admin = MessageContext(direct_agent_id="boss", roles=("admin",))
    first = await ask(runner, "x", context=admin)
    reply: str | Content = "yes" if make is asker else result_for(first)
    second = await ask(runner, reply, context=MessageContext(direct_agent_id="asks"))
    assert "boss" not in [e.author for e in second.events]
    assert second.invocation_id != first.invocation_id


async def test_a_finished_parallel_child_does_not_run_again(make_runner: MakeRunner) -> None:
    """A41: also when it finished last, and the sibling that asked had nothing more to say before the wait."""
    runs: list[str] = []

    @agent
    async def worker() -> str:
        await asyncio.sleep(0.01)
        runs.append("worker")
        return "worked"

    runner = make_runner(Parallel("both", [asker("asks"), worker]))
    assert (await ask(runner, "hi")).text == "ok?\nworked"
    assert (await ask(runner, "yes")).text == "asks got yes"
    assert runs == ["worker"]


@pytest.mark.parametrize("delay", [0, 0.01])
async def test_a_childs_hand_over_is_not_lost_in_a_siblings_wait(make_runner: MakeRunner, delay: float) -> None:
    """A36, A41: the floor moves when the sibling has its answer, whether it asked before or after."""

    @agent
    async def target() -> str:
        return "here I am"

    @agent(children=[target])
    async def gives(context: AgentContext) -> str:
        await context.transfer("target")
        return "moving"

    @agent
    async def asks(context: AgentContext) -> str:
        await asyncio.sleep(delay)
        return f"asks got {(await context.ask('ok?')).text}"

    runner = make_runner(Parallel("both", [gives, asks]))
    assert (await ask(runner, "hi")).text == "moving\nok?"
    second = await ask(runner, "yes")
    assert (second.text, reason(second)) == ("asks got yes\nhere I am", "completed")


async def test_a_called_agents_question_is_shown_and_answered(make_runner: MakeRunner) -> None:
    """A42: the caller of the called one holds the floor; what it says besides stays private."""

    @agent
    async def called(context: AgentContext) -> str:
        await context.say("private thought")
        return (await context.ask("What size?")).text

    @agent(children=[called])
    async def calls(context: AgentContext) -> str:
        return f"size {(await context.call('called', 'go')).text}"

    runner = make_runner(calls)
    assert (await ask(runner, "hi")).text == "What size?"
    assert (await ask(runner, "L")).text == "size L"


async def test_a_called_agents_question_is_answered_after_a_hand_over(make_runner: MakeRunner) -> None:
    """A42: the reply finds its invocation though a composite holds the floor there."""

    @agent
    async def first(context: AgentContext) -> str:
        return f"first: {(await context.call('helper', 'go')).text}"

    @agent(children=[Sequential("all", [first]), asker("helper", "size?")])
    async def root(context: AgentContext) -> None:
        await context.transfer("all")

    runner = make_runner(root)
    assert (await ask(runner, "hi")).text == "size?"
    second = await ask(runner, "L")
    assert (second.text, reason(second)) == ("first: helper got L", "completed")
    assert (await runner.sessions.get(key())).head.invocations == {}


async def closes_by_cancel(make_runner: MakeRunner) -> Runner:
    runner = make_runner(tool_asker("asks"))
    first = await ask(runner, "x")
    await runner.sessions.cancel(key(), first.invocation_id)
    return runner


async def closes_by_time(make_runner: MakeRunner) -> Runner:
    issuer = CountingIssuer()
    runner = make_runner(agent(name="root", children=[tool_asker("asks")])(lambda: "root"), issuer=issuer)
    config = RunConfig(limits=Limits(wait_seconds=60))
    await ask(runner, "x", config=config, context=MessageContext(direct_agent_id="asks"))
    issuer.advance(120)
    await ask(runner, "next", context=MessageContext(direct_agent_id="root"))
    return runner


async def closes_by_sibling(make_runner: MakeRunner) -> Runner:
    @agent
    async def fails() -> str:
        await asyncio.sleep(0.01)
        raise ValueError("x")

    runner = make_runner(Parallel("both", [tool_asker("asks"), fails]))
    assert reason(await ask(runner, "x")) == "failed"
    return runner


@pytest.mark.parametrize("closes", [closes_by_cancel, closes_by_time, closes_by_sibling])
async def test_every_open_tool_call_gets_a_result(make_runner: MakeRunner, closes: Any) -> None:
    """A23: whatever ends the wait, so that the history stays valid for every provider."""
    runner = await closes(make_runner)
    events = [e for e in await runner.store.events(key()) if e.content]
    calls = {call.call_id for e in events for call in e.content.tool_calls}
    results = {part.call_id: part.failed for e in events for part in e.content.tool_results}
    assert results == dict.fromkeys(calls, True)
    head = (await runner.sessions.get(key())).head
    assert (head.calls, head.invocations) == ({}, {})


async def test_hooks_are_told_of_what_is_done_to_a_session(make_runner: MakeRunner) -> None:
    """A hook sees every stored event and every end, also those that no message caused."""
    hooks = RecordingHooks()
    runner = make_runner(asker("asks"), hooks=[hooks])
    first = await ask(runner, "x")
    await runner.sessions.cancel(key(), first.invocation_id)
    assert hooks.ends == [(first.invocation_id, "waiting"), (first.invocation_id, "cancelled")]
    await runner.sessions.rewind(key(), first.invocation_id)
    assert hooks.events[-1].actions.rewind is not None
    assert hooks.events == await runner.store.events(key(), hidden=True)


async def test_stopped_hand_overs_stay_stopped_when_the_root_asks(make_runner: MakeRunner) -> None:
    """A38: after the reply it still has no targets, is told why, and the invocation ends as a loop."""

    def gives(name: str, target: str) -> FunctionAgent:
        @agent(name=name)
        async def giver(context: AgentContext) -> None:
            await context.transfer(target)

        return giver

    @agent(children=[gives("a", "b"), gives("b", "a")])
    async def root(context: AgentContext) -> str:
        if not context.notice:
            await context.transfer("a")
            return "I hand over."
        return f"{(await context.ask('Help me?')).text}: {context.transfer_targets}"

    runner = make_runner(root)
    assert (await ask(runner, "hi")).text == "I hand over.\nHelp me?"
    second = await ask(runner, "ok")
    assert (second.text, reason(second)) == ("ok: ()", "loop")


@pytest.mark.parametrize("waits", [False, True])
async def test_a_child_of_a_sequence_leaves_the_loop_around_it(make_runner: MakeRunner, waits: bool) -> None:
    """A41: also when a sibling asked after it escalated, and the turn was taken up again."""
    rounds: list[int] = []

    @agent
    async def stops(context: AgentContext) -> str:
        rounds.append(1)
        await context.escalate()
        return "stop"

    @agent
    async def plain() -> str:
        return "plain"

    inner = Sequential("inner", [stops, asker("asks") if waits else plain])
    runner = make_runner(Loop("outer", [inner], max_iterations=4))
    result = await ask(runner, "hi")
    if waits:
        result = await ask(runner, "yes")
    assert reason(result) == "completed"
    assert rounds == [1]


async def test_an_agent_may_go_on_after_a_call_that_failed_and_then_ask(make_runner: MakeRunner) -> None:
    """A20, A42: the failure is on record, and what was caught is caught again when the turn is taken up."""

    @agent
    async def fails() -> str:
        raise ValueError("x")

    @agent(children=[fails])
    async def recovers(context: AgentContext) -> str:
        try:
            await context.call("fails", "go")
        except AgentFailed:
            await context.say("never mind")
        return (await context.ask("ok?")).text

    runner = make_runner(recovers)
    assert (await ask(runner, "x")).text == "never mind\nok?"
    second = await ask(runner, "yes")
    assert (second.text, reason(second)) == ("yes", "completed")
