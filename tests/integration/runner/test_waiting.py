"""Asking, waiting, and going on where it stopped (A6, A8, A41, A42, decision 6)."""

from collections.abc import Callable

import pytest
from runner_play import ask, key, log

from turnwise import AgentContext, Content, Limits, Loop, Parallel, RunConfig, Runner, Sequential, agent
from turnwise.agents.function import FunctionAgent
from turnwise.facts.content import ToolResultPart
from turnwise.facts.errors import UnknownToolCall
from turnwise.testing.fakes import CountingIssuer

MakeRunner = Callable[..., Runner]


def form(work: list[str]) -> FunctionAgent:
    @agent
    async def form(message: str, context: AgentContext) -> str:
        await context.say("Let us begin.")
        context.state["begun"] = (context.state.get("begun") or 0) + 1
        name = (await context.ask("Your name?")).text

        async def charge() -> str:
            work.append(name)
            return f"receipt for {name}"

        receipt = await context.step("charge", charge)
        code = (await context.ask("The code?")).text
        return f"{message}: {name}, {code}, {receipt}, {context.state['begun']}"

    return form


async def test_an_agent_asks_and_goes_on_with_the_answers(make_runner: MakeRunner) -> None:
    """A42: one invocation; nothing is said twice, no step is done twice, state is written once."""
    work: list[str] = []
    runner = make_runner(form(work))
    first = await ask(runner, "start")
    assert first.waiting
    assert first.text == "Let us begin.\nYour name?"
    second = await ask(runner, "Ada")
    assert second.text == "The code?"
    third = await ask(runner, "4711")
    assert third.text == "start: Ada, 4711, receipt for Ada, 1"
    assert third.end is not None
    assert {first.invocation_id, second.invocation_id, third.invocation_id} == {first.invocation_id}
    assert work == ["Ada"]
    assert [a for a, _ in await log(runner)].count("user") == 3
    assert (await runner.sessions.get(key())).head.invocations == {}


async def test_a_waiting_invocation_goes_on_in_another_process(make_runner: MakeRunner, tmp_path: object) -> None:
    """A42: nothing of the wait is in memory."""
    from turnwise.stores.sql import SqlSessionStore

    url = f"sqlite:///{tmp_path}/s.db"
    work: list[str] = []
    one = make_runner(form(work), store=SqlSessionStore(url), issuer=None)
    await ask(one, "start")
    await one.close()
    two = make_runner(form(work), store=SqlSessionStore(url), issuer=None)
    await ask(two, "Ada")
    assert "receipt for Ada" in (await ask(two, "4711")).text
    assert work == ["Ada"]


async def test_while_an_agent_waits_others_can_be_asked(make_runner: MakeRunner) -> None:
    """A42: a plain message to another is a new invocation; the wait stays open."""

    @agent(patterns=[{"regex": "stores?", "confidence": 0.97}])
    async def stores() -> str:
        return "Open until six."

    @agent(patterns=["reset"])
    async def reset(context: AgentContext) -> str:
        return "code " + (await context.ask("The code?")).text

    @agent(children=[stores, reset])
    async def front() -> str:
        return "Hello."

    runner = make_runner(front)
    waiting = await ask(runner, "reset my password")
    assert waiting.waiting
    aside = await ask(runner, "where are your stores")
    assert aside.text == "Open until six."
    assert aside.invocation_id != waiting.invocation_id
    back = await ask(runner, "back to the reset: 4711")
    assert back.text == "code back to the reset: 4711"
    assert back.invocation_id == waiting.invocation_id


async def test_a_tool_result_continues_its_invocation(make_runner: MakeRunner) -> None:
    """A6: with the author of the call, in the same invocation."""

    @agent(resume="never", patterns=["pay"])
    async def pays(context: AgentContext) -> str:
        approved = await context.ask("Please approve.", tool="approve", arguments={"amount": 3})
        return f"approved: {approved.tool_results[0].result}"

    @agent(children=[pays])
    async def front() -> str:
        return "front"

    runner = make_runner(front)
    first = await ask(runner, "pay")
    call = next(c for e in first.events if e.content for c in e.content.tool_calls)
    assert call.arguments == {"amount": 3}
    assert (await ask(runner, "hello?")).text == "front"
    done = await ask(runner, Content(parts=(ToolResultPart(call_id=call.call_id, result="yes"),)))
    assert done.text == "approved: yes"
    assert done.invocation_id == first.invocation_id
    assert done.selection is not None
    assert done.selection.method == "tool_result"


async def test_results_of_unknown_calls_are_refused_before_anything_is_stored(make_runner: MakeRunner) -> None:
    """A8."""
    runner = make_runner(form([]))
    with pytest.raises(UnknownToolCall):
        await runner.start(Content(parts=(ToolResultPart(call_id="nope"),)), user="ada", session="s")
    assert await runner.store.open(key()) is None


async def test_a_wait_expires(make_runner: MakeRunner) -> None:
    """A42: then the message begins anew, and the old invocation has its end."""
    issuer = CountingIssuer()
    runner = make_runner(form([]), issuer=issuer)
    config = RunConfig(limits=Limits(wait_seconds=60))
    first = await ask(runner, "start", config=config)
    issuer.advance(120)
    second = await ask(runner, "Ada", config=config)
    assert second.invocation_id != first.invocation_id
    assert second.text.startswith("Let us begin.")
    ends = [e.actions.end for e in await runner.store.events(key(), invocation_id=first.invocation_id) if e.actions.end]
    assert [end.reason for end in ends] == ["limit:wait_seconds"]


async def test_a_waiting_invocation_can_be_cancelled(make_runner: MakeRunner) -> None:
    """A42."""
    runner = make_runner(form([]))
    first = await ask(runner, "start")
    await runner.sessions.cancel(key(), first.invocation_id)
    assert (await runner.sessions.get(key())).head.invocations == {}
    assert (await ask(runner, "Ada")).invocation_id != first.invocation_id


async def test_a_sequence_goes_on_where_it_stopped(make_runner: MakeRunner) -> None:
    """A41: children in order, and the position survives a wait."""
    ran: list[str] = []

    @agent
    async def first() -> str:
        ran.append("first")
        return "one"

    @agent
    async def second(context: AgentContext) -> str:
        ran.append("second")
        return "two " + (await context.ask("Which?")).text

    @agent
    async def third(context: AgentContext) -> str:
        ran.append("third")
        return "three after " + " ".join(e.text for e in await context.history.last() if e.author in ("first", "second"))

    runner = make_runner(Sequential("all", [first, second, third]))
    assert (await ask(runner, "go")).text == "one\nWhich?"
    done = await ask(runner, "blue")
    assert done.text == "two blue\nthree after one Which? two blue"
    assert ran == ["first", "second", "second", "third"]


async def test_a_loop_runs_until_a_child_escalates(make_runner: MakeRunner) -> None:
    """A41."""

    @agent
    async def counts(context: AgentContext) -> str:
        n = context.state.get("n", 0) + 1
        context.state["n"] = n
        if n == 3:
            await context.escalate()
        return str(n)

    @agent
    async def after() -> str:
        return "after"

    runner = make_runner(Loop("loop", [counts, after], max_iterations=5))
    assert (await ask(runner, "go")).text == "1\nafter\n2\nafter\n3"
    other = make_runner(Loop("loop", [after_copy()], max_iterations=2))
    assert (await ask(other, "go")).text == "x\nx"


def after_copy() -> FunctionAgent:
    @agent
    async def x() -> str:
        return "x"

    return x


async def test_a_loop_that_asks_goes_on_in_its_round(make_runner: MakeRunner) -> None:
    """A41."""

    @agent
    async def asks(context: AgentContext) -> str:
        answer = (await context.ask("More?")).text
        if answer == "no":
            await context.escalate()
        return f"got {answer}"

    runner = make_runner(Loop("loop", [asks]))
    assert (await ask(runner, "go")).text == "More?"
    assert (await ask(runner, "yes")).text == "got yes\nMore?"
    last = await ask(runner, "no")
    assert last.text == "got no"
    assert last.end is not None


async def test_parallel_children_do_not_see_each_other_and_later_agents_see_all(make_runner: MakeRunner) -> None:
    """A41."""

    def looker(name: str) -> FunctionAgent:
        @agent(name=name)
        async def look(context: AgentContext) -> str:
            await context.say(f"{name} speaks")
            seen = sorted({e.author for e in await context.history.last()} - {"user"})
            return f"{name} sees {','.join(seen)}"

        return look

    @agent
    async def last(context: AgentContext) -> str:
        return "last sees " + ",".join(sorted({e.author for e in await context.history.last()}))

    runner = make_runner(Sequential("all", [Parallel("both", [looker("a"), looker("b")]), last]))
    text = (await ask(runner, "go")).text
    assert "a sees a\n" in text
    assert "b sees b\n" in text
    assert text.endswith("last sees a,b,user")


async def test_one_failing_parallel_child_cancels_the_rest(make_runner: MakeRunner) -> None:
    """A41."""
    import asyncio

    cancelled: list[str] = []

    @agent
    async def waits() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append("waits")
            raise
        return "late"

    @agent
    async def fails() -> str:
        raise ValueError("broken")

    result = await ask(make_runner(Parallel("both", [waits, fails])), "go")
    assert result.end is not None
    assert result.end.reason == "failed"
    assert cancelled == ["waits"]


async def test_parallel_children_that_ask_are_answered_one_after_the_other(make_runner: MakeRunner) -> None:
    """A41, A42: the siblings run to their end first."""

    def asker(name: str) -> FunctionAgent:
        @agent(name=name)
        async def asks(context: AgentContext) -> str:
            return f"{name}: " + (await context.ask(f"{name}?")).text

        return asks

    @agent
    async def quick() -> str:
        return "quick"

    runner = make_runner(Parallel("all", [asker("a"), asker("b"), quick]))
    first = await ask(runner, "go")
    assert sorted(first.text.split("\n")) == ["a?", "b?", "quick"]
    second = await ask(runner, "one")
    assert second.waiting
    third = await ask(runner, "two")
    assert third.end is not None
    said = sorted([*second.text.split("\n"), *third.text.split("\n")])
    assert said == ["a: one", "b: two"]
    assert (await runner.sessions.get(key())).head.invocations == {}


async def test_state_reads_as_it_was_while_a_turn_is_taken_up_again(make_runner: MakeRunner) -> None:
    """Decision 6: what was written after a question does not change which questions are asked."""

    @agent
    async def form(context: AgentContext) -> str:
        if "order" not in context.state:
            context.state["order"] = (await context.ask("Which order?")).text
        seen = context.state["order"]
        if "size" not in context.state:
            context.state["size"] = (await context.ask("Which size?")).text
        return f"{seen} {context.state['order']} {context.state['size']} {(await context.ask('Sure?')).text}"

    runner = make_runner(form)
    for message, answer in (("go", "Which order?"), ("4711", "Which size?"), ("L", "Sure?"), ("yes", "4711 4711 L yes")):
        assert (await ask(runner, message)).text == answer
    assert (await ask(runner, "go")).text == "Sure?"


async def test_the_receiver_of_the_floor_gets_the_givers_message(make_runner: MakeRunner) -> None:
    """A36: else the user's last one; also when it is taken up again."""

    @agent
    async def billing(message: str, context: AgentContext) -> str:
        return f"billing got {message!r}, then {(await context.ask('Sure?')).text!r}"

    @agent(children=[billing])
    async def front(context: AgentContext) -> None:
        order = (await context.ask("Which order?")).text
        await context.transfer("billing", message=f"refund {order}" if order != "plain" else None)

    for reply, told in (("4711", "refund 4711"), ("plain", "plain")):
        runner = make_runner(front)
        await ask(runner, "hello")
        assert (await ask(runner, reply)).text == "Sure?"
        assert (await ask(runner, "yes")).text == f"billing got {told!r}, then 'yes'"
