"""Tasks that wait for a person: the answer reaches the right one, whichever process reads it (D1, D12, D13)."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from flow_play import closings, done, ended, statuses, turns
from llm_play import answering, waiting_call
from runner_play import ask, direct, key, reason, soon

from turnwise import AgentContext, LlmAgent, RunConfig, Runner, agent
from turnwise.facts.messages import MessageContext
from turnwise.flows.flow import Flow
from turnwise.flows.tasks import Task
from turnwise.ports.agent import Agent
from turnwise.runner import Result
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.function import tool

Process = Callable[..., Runner]
FLOW = direct("flow")


def asking(name: str, tool: str | None = None) -> Agent:
    """An agent that asks for a colour, in words or by a tool call, and gives it as its result."""

    @agent(name=name)
    async def asks(context: AgentContext) -> str:
        reply = await context.ask(f"Which colour, says {name}?", tool=tool)
        return f"{name} got {reply.tool_results[0].result if tool else reply.text}"

    return asks


def doing(name: str, ran: Counter[str]) -> Agent:
    @agent(name=name)
    def does(context: AgentContext) -> str:
        ran[name] += 1
        part = context.assignment
        assert part is not None
        return f"{name} of {sorted(map(str, part.tasks[0].given.values()))}"

    return does


async def reply(runner: Runner, text: str, to: str | None = None) -> Result:
    """Answers the open question; `to` says whose, if there are several."""
    return await soon(ask(runner, text, context=MessageContext(direct_agent_id=to)))


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_flow_waits_in_the_middle_and_goes_on(process: Process, restarts: bool) -> None:
    """D12: what was done is not done again."""
    ran: Counter[str] = Counter()
    tasks = [
        Task("one", agents=[doing("first", ran)]),
        Task("two", agents=[asking("asker")], depends_on=["one"], interactive=True),
        Task("three", agents=[doing("last", ran)], depends_on=["two"]),
    ]
    flow = Flow("flow", tasks)
    runner = process(flow)
    first = await ask(runner, "go", context=FLOW)
    assert (reason(first), ran["last"]) == ("waiting", 0)
    result = await reply(process(flow) if restarts else runner, "red")
    assert (reason(result), ran) == ("completed", {"first": 1, "last": 1})
    assert result.text.splitlines()[-1] == "last of ['asker got red']"
    log = await runner.store.events(key())
    assert [who for who, _, _ in turns(log)] == ["first", "asker", "last"]
    assert len(closings(log)) == 3


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_two_that_wait_side_by_side_get_each_their_answer(process: Process, order: str, restarts: bool) -> None:
    """D13: in either order; who did not wait is done by then, and is not done again."""
    ran: Counter[str] = Counter()
    tasks = [
        Task("one", agents=[asking("a", tool="pick")]),
        Task("two", agents=[asking("b", tool="pick")]),
        Task("three", agents=[doing("c", ran)]),
        Task("all", agents=[doing("d", ran)], depends_on=["one", "two", "three"]),
    ]
    flow = Flow("flow", tasks, side_by_side=3)
    runner = process(flow)
    result = await ask(runner, "go", context=FLOW)
    waits = {e.author: e.actions.awaits.id for e in result.events if e.actions.awaits}
    for name in order:
        assert (result.waiting, ran["c"], ran["d"]) == (True, 1, 0)
        result = await soon(ask(process(flow) if restarts else runner, answering(waits[name], f"{name}s")))
    assert (reason(result), ran) == ("completed", {"c": 1, "d": 1})
    log = await runner.store.events(key())
    found = closings(log)
    assert [found[task].result for task in ("one", "two", "three")] == ["a got as", "b got bs", "c of []"]
    assert ended(log)["turns"] == 4


async def test_a_model_asks_the_user_in_an_interactive_task_alone(process: Process) -> None:
    """D1: the tool is there where the task says so; the answer comes to the model as the tool's result."""
    first = ScriptedModel(calls("ask_user", {"question": "Which colour?"}), done("red it is"))
    second = ScriptedModel(done("dull"))
    tasks = [
        Task("one", agents=[LlmAgent("a", model=first)], interactive=True),
        Task("two", agents=[LlmAgent("b", model=second)], depends_on=["one"]),
    ]
    flow = Flow("flow", tasks)
    assert (await ask(process(flow), "go", context=FLOW)).waiting
    result = await reply(process(flow), "red")
    assert reason(result) == "completed"
    assert [part.result for part in first.requests[1].messages[-1].tool_results] == ["red"]
    assert ended(await process(flow).store.events(key()))["model_calls"] == 3, "D11: in all processes"
    names = [[each.name for each in model.requests[0].tools] for model in (first, second)]
    assert ["ask_user" in each for each in names] == [True, False]


async def test_a_tool_of_a_task_is_confirmed(process: Process) -> None:
    made: list[str] = []

    @tool(confirm=True)
    async def pay(amount: int) -> str:
        """Pays."""
        made.append(str(amount))
        return "paid"

    model = ScriptedModel(calls("pay", {"amount": 3}), done("all paid"))
    flow = Flow("flow", [Task("one", agents=[LlmAgent("a", model=model)], tools=[pay])])
    first = await ask(process(flow), "go", context=FLOW)
    assert (first.waiting, made) == (True, [])
    result = await soon(ask(process(flow), answering(waiting_call(first), {"approved": True})))
    assert (reason(result), made, closings(result.events)["one"].result) == ("completed", ["3"], "all paid")


async def test_a_task_waits_inside_of_a_flow_that_is_a_task(process: Process) -> None:
    """Both flows go on where they were."""
    ran: Counter[str] = Counter()
    inner = Flow(
        "inner",
        [
            Task("before", agents=[doing("i1", ran)]),
            Task("question", agents=[asking("i2")], depends_on=["before"]),
        ],
    )
    tasks = [Task("part", agents=[inner]), Task("end", agents=[doing("o", ran)], depends_on=["part"])]
    flow = Flow("flow", tasks)
    assert (await ask(process(flow), "go", context=FLOW)).waiting
    runner = process(flow)
    result = await reply(runner, "blue")
    assert (reason(result), ran) == ("completed", {"i1": 1, "o": 1})
    log = await runner.store.events(key())
    assert closings(log)["part"].result == "i2 got blue"
    assert ended(log, "inner")["reason"] == "complete"
    assert statuses(log) == {"part": "successful", "end": "successful"}


async def test_replies_to_nobody_by_name_answer_the_questions_in_their_order(process: Process) -> None:
    """And the record says whose question it was."""
    flow = Flow("flow", [Task("one", agents=[asking("a")]), Task("two", agents=[asking("b")])], side_by_side=2)
    await ask(process(flow), "go", context=FLOW)
    assert (await reply(process(flow), "red")).waiting
    await reply(process(flow), "blue")
    log = await process(flow).store.events(key())
    assert [closings(log)[task].result for task in ("one", "two")] == ["a got red", "b got blue"]
    reasons = [event.actions.selection.reason for event in log if event.author == "user" and event.actions.selection]
    assert reasons[1:] == ["a asked the user and waits for the reply.", "b asked the user and waits for the reply."]


async def test_another_conversation_goes_on_while_a_flow_waits(process: Process) -> None:
    """What answers nothing does not end the wait."""
    flow = Flow("flow", [Task("one", agents=[asking("a")])])
    other = doing("other", Counter())

    @agent(children=[flow, other])
    def front() -> str:
        return "front"

    runner = process(front)
    assert (await ask(runner, "go", context=FLOW)).waiting
    assert (await ask(runner, "hello", context=direct("front"))).text == "front"
    result = await reply(runner, "red", "flow")
    assert (reason(result), closings(result.events)["one"].result) == ("completed", "a got red")


async def test_a_message_may_interrupt_a_flow_at_work(process: Process) -> None:
    """It ends the run, which is not taken up again, and begins one of its own."""
    began = asyncio.Event()
    times: list[str] = []

    @agent(name="a")
    async def slow(message: str) -> str:
        times.append(message)
        if len(times) == 1:
            began.set()
            await asyncio.Event().wait()
        return "done"

    runner = process(Flow("flow", [Task("one", agents=[slow])]))
    invocation = await runner.start("first", user="ada", session="s", context=FLOW)
    await began.wait()
    result = await soon(ask(runner, "second", context=FLOW, config=RunConfig(when_busy="interrupt")))
    assert reason(await soon(invocation.result())) == "cancelled"
    assert (reason(result), closings(result.events)["one"].result) == ("completed", "done")
    assert ["second" in each for each in times] == [False, True]


async def test_a_flow_is_cancelled_while_its_agents_work(process: Process) -> None:
    """Nobody works any more then, and no task ended."""
    stopped: list[str] = []

    def slow(name: str) -> Agent:
        @agent(name=name)
        async def works(context: AgentContext) -> str:
            try:
                await context.say("I begin.")
                await asyncio.Event().wait()
            finally:
                stopped.append(name)
            return "never"

        return works

    flow = Flow("flow", [Task("one", agents=[slow("a")]), Task("two", agents=[slow("b")])], side_by_side=2)
    runner = process(flow)
    invocation = await runner.start("go", user="ada", session="s", context=FLOW)
    begun = 0
    async for event in invocation.events():
        begun += event.text == "I begin."
        if begun == 2:
            break
    await invocation.cancel()
    result = await soon(invocation.result())
    assert (reason(result), sorted(stopped), closings(result.events)) == ("cancelled", ["a", "b"], {})


async def test_who_may_not_go_on_any_more_does_not_make_it_a_success(process: Process) -> None:
    """Whoever answers may have fewer roles than whoever asked."""

    @agent(name="a", roles=["boss"])
    async def asks(context: AgentContext) -> str:
        return (await context.ask("Sure?")).text

    flow: Any = Flow("flow", [Task("one", agents=[asks])])
    runner = process(flow)
    context = MessageContext(direct_agent_id="flow", roles=("boss",))
    assert (await ask(runner, "go", context=context)).waiting
    result = await reply(runner, "yes")
    assert reason(result) in ("completed", "failed", "stuck")
    assert "" not in [each.result for each in closings(await runner.store.events(key())).values()]
