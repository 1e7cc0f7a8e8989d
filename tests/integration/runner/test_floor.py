"""The floor: transfers, loops, calls, teams (A35–A40, A10–A11, B6–B7)."""

from collections.abc import AsyncIterator, Callable
from typing import Any

from runner_play import ask, key

from turnwise import AgentContext, Content, Event, Limits, MessageContext, RunConfig, Runner, Team, agent
from turnwise.agents.function import FunctionAgent
from turnwise.facts.errors import AgentFailed, TransferRefused
from turnwise.selection.conversational import Conversational
from turnwise.selection.fixed import Iterative

MakeRunner = Callable[..., Runner]


def giver(name: str, target: str, **card: Any) -> FunctionAgent:
    @agent(name=name, **card)
    async def gives(context: AgentContext) -> str:
        if context.notice:
            return f"{name} answers: {context.transfer_targets}"
        await context.transfer(target)
        return f"{name} gives"

    return gives


async def test_a_transfer_runs_the_target_in_the_same_invocation(make_runner: MakeRunner) -> None:
    """A36: with the history; the giver does not get the floor back, and the target is resumed."""

    @agent
    async def billing(context: AgentContext) -> str:
        return f"billing saw {[e.author for e in await context.history.last()]}"

    @agent(children=[billing])
    async def front(context: AgentContext) -> str:
        await context.transfer("billing")
        return "One moment."

    runner = make_runner(front, policy="default")
    result = await ask(runner, "refund")
    assert result.text == "One moment.\nbilling saw ['user', 'front']"
    assert [e.actions.transfer_to for e in result.events] == [None, "billing", None]
    again = await ask(runner, "and now?")
    assert again.selection is not None
    assert (again.selection.agent, again.selection.method) == ("billing", "resume")


async def test_a_yielded_transfer_counts_too(make_runner: MakeRunner) -> None:
    """A39: any kind of agent may transfer."""

    @agent
    async def b() -> str:
        return "b"

    @agent(children=[b])
    async def a(context: AgentContext) -> AsyncIterator[Event]:
        yield context.event("a", transfer_to="b")
        yield context.event("still a")

    assert (await ask(make_runner(a), "x")).text == "a\nstill a\nb"


async def test_a_forbidden_or_unknown_target_is_told_the_allowed_ones(make_runner: MakeRunner) -> None:
    """A37, A40: an agent can react; the turn goes on."""
    refused: list[TransferRefused] = []

    @agent
    async def child(context: AgentContext) -> str:
        for target in ("nobody", "child"):
            try:
                await context.transfer(target)
            except TransferRefused as error:
                refused.append(error)
        await context.transfer("front")
        try:
            await context.transfer("sibling")
        except TransferRefused as error:
            refused.append(error)
        return "handed over"

    @agent
    async def sibling() -> str:
        return "sibling"

    @agent(children=[child, sibling])
    async def front(context: AgentContext) -> str:
        if len(await context.history.last()) > 1:
            return "front again"
        await context.transfer("child")
        return ""

    result = await ask(make_runner(front), "x")
    assert result.text == "handed over\nfront again"
    assert [error.allowed for error in refused] == [("front", "sibling"), ("front", "sibling"), ()]
    assert "already" in refused[2].problem, "A40: of two transfers the first wins"


async def test_a_yielded_transfer_to_nobody_is_an_error_event(make_runner: MakeRunner) -> None:
    """A37."""

    @agent
    async def a(context: AgentContext) -> AsyncIterator[Event]:
        yield context.event("a", transfer_to="nobody")

    result = await ask(make_runner(a), "x")
    assert [e.error.code for e in result.events if e.error] == ["agent.transfer_refused"]
    assert result.end is not None
    assert result.end.reason == "completed"


async def test_a_loop_of_transfers_is_stopped_and_the_root_answers(make_runner: MakeRunner) -> None:
    """A38: once, without a transfer, and told why."""
    b = giver("b", "a")
    a = giver("a", "b", children=[b])
    result = await ask(make_runner(a), "x")
    assert result.text == "a gives\nb gives\na gives\na answers: ()"
    assert result.end is not None
    assert result.end.reason == "loop"
    assert "a → b → a → b" in result.end.detail


async def test_transfers_are_limited(make_runner: MakeRunner) -> None:
    """A38."""
    c = giver("c", "root")
    b = giver("b", "c")
    root = giver("root", "b", children=[b, c])
    result = await ask(make_runner(root), "x", config=RunConfig(limits=Limits(transfers=2)))
    assert result.end is not None
    assert result.end.reason == "limit:transfers"
    assert result.text.endswith("root answers: ()")


async def test_a_transfer_whose_target_failed_resumes_the_giver(make_runner: MakeRunner) -> None:
    """A10: an error does not make its author the one to resume."""

    @agent
    async def fragile(message: str) -> str:
        raise RuntimeError("broken")

    @agent(children=[fragile])
    async def front(message: str, context: AgentContext) -> str:
        if message == "go":
            await context.transfer("fragile")
            return "over to fragile"
        return "front"

    runner = make_runner(front)
    assert (await ask(runner, "go")).error is not None
    again = await ask(runner, "hello")
    assert again.text == "front"
    assert again.selection is not None
    rules = {p.agent: p.rule for v in again.selection.verdicts for p in v.passed_over}
    assert rules.get("fragile") == "failed", "A13"


async def test_an_agent_out_of_a_callers_reach_is_no_target(make_runner: MakeRunner) -> None:
    """C20: transfers and calls respect who may reach whom."""

    @agent(roles=["staff"])
    async def vault() -> str:
        return "secrets"

    @agent(children=[vault])
    async def front(message: str, context: AgentContext) -> str:
        if message == "call":
            return (await context.call("vault", "open")).text
        return ",".join(context.transfer_targets) or "nobody"

    runner = make_runner(front)
    assert (await ask(runner, "who", context=MessageContext(direct_agent_id="front"))).text == "nobody"
    staff = MessageContext(direct_agent_id="front", roles=("staff",))
    assert (await ask(runner, "who", context=staff)).text == "vault"
    assert (await ask(runner, "call", context=staff)).text == "secrets"
    denied = await ask(runner, "call", context=MessageContext(direct_agent_id="front"))
    assert denied.error is not None


async def test_a_called_agent_answers_in_private(make_runner: MakeRunner) -> None:
    """The floor stays; the user and other agents do not see the call."""

    @agent
    async def prices(message: str, context: AgentContext) -> str:
        seen = [e.text for e in await context.history.last()]
        return f"{message} costs 3; saw {seen}"

    @agent(children=[prices])
    async def front(context: AgentContext) -> str:
        answer = (await context.call("prices", "tea")).text
        assert [e.author for e in await context.history.last()] == ["user"]
        return f"({answer})"

    runner = make_runner(front)
    result = await ask(runner, "how much", context=MessageContext(direct_agent_id="front"))
    assert result.text == "(tea costs 3; saw ['how much'])"
    session = await runner.sessions.get(key())
    assert session.head.active_agent == "front"
    assert "prices" not in session.head.authors


async def test_a_called_agent_may_ask_the_user(make_runner: MakeRunner) -> None:
    """A42: the caller runs again, the call is made once."""
    calls: list[str] = []

    @agent
    async def asks(message: str, context: AgentContext) -> str:
        calls.append(message)
        return "size " + (await context.ask("Which size?")).text

    @agent(children=[asks])
    async def front(context: AgentContext) -> str:
        first = (await context.call("asks", "one")).text
        second = (await context.call("asks", "two")).text
        return f"{first}, {second}"

    runner = make_runner(front)
    direct = MessageContext(direct_agent_id="front")
    await ask(runner, "go", context=direct)
    await ask(runner, "L", context=direct)
    assert (await ask(runner, "M", context=direct)).text == "size L, size M"
    assert calls == ["one", "one", "two", "two"]


async def test_a_failing_call_can_be_caught(make_runner: MakeRunner) -> None:
    @agent
    async def broken() -> str:
        raise ValueError("no")

    @agent(children=[broken])
    async def front(context: AgentContext) -> str:
        try:
            await context.call("broken", "x")
        except AgentFailed:
            return "handled"
        return ""

    result = await ask(make_runner(front), "x", context=MessageContext(direct_agent_id="front"))
    assert result.text == "handled"
    assert result.end is not None
    assert result.end.reason == "completed"
    assert [e.author for e in result.events if e.error] == ["broken"], "what failed is on record"


async def test_calls_in_calls_are_limited(make_runner: MakeRunner) -> None:
    @agent
    async def deep(context: AgentContext) -> Content:
        return await context.call("deep", "deeper")

    result = await ask(make_runner(deep), "x", config=RunConfig(limits=Limits(call_depth=3)))
    assert result.end is not None
    assert result.end.reason == "limit:call_depth"


def member(name: str, *answers: str) -> FunctionAgent:
    left = list(answers)

    @agent(name=name)
    async def speaks() -> str:
        return left.pop(0)

    return speaks


async def test_members_of_a_team_name_the_next_until_one_does_not(make_runner: MakeRunner) -> None:
    """B1, B4, B6, B7: the lead is first; the tags are not shown; the choices are on record."""
    team = Team(
        "desk",
        [
            member("lead", "Find it,<next>@Searcher</next>", "All done."),
            member("searcher", "Found.<next>@Writer.</next>"),
            member("writer", "Wrote it<next>nobody I know</next>"),
        ],
        selector=Conversational(lead="lead"),
    )
    runner = make_runner(team)
    result = await ask(runner, "please <next>@Writer</next>")
    assert [e.author for e in result.events if e.text] == ["user", "lead", "searcher", "writer", "lead"]
    assert result.text == "Find it,\nFound.\nWrote it\nAll done."
    decisions = [e.actions.selection for e in result.events if e.actions.selection]
    assert [d.agent for d in decisions[1:]] == ["lead", "searcher", "writer", "lead"]
    assert decisions[2].occasion == "answer"


async def test_a_team_with_an_order_goes_round_until_one_escalates(make_runner: MakeRunner) -> None:
    """B3, B7: the position lives in the session's head."""

    @agent
    async def third(context: AgentContext) -> str:
        await context.escalate()
        return "3"

    team = Team(
        "desk",
        [member("one", "1", "1"), member("two", "2", "2"), third],
        selector=Iterative(order=["one", "two", "third"]),
        ends="escalated",
    )
    runner = make_runner(team)
    assert (await ask(runner, "go")).text == "1\n2\n3"
    assert (await ask(runner, "go")).text == "1\n2\n3"


async def test_a_team_that_does_not_end_is_stopped(make_runner: MakeRunner) -> None:
    """B7."""

    @agent
    async def a() -> str:
        return "on<next>a</next>"

    team = Team("desk", [a], selector=Conversational(lead="a"))
    result = await ask(make_runner(team), "go", config=RunConfig(limits=Limits(turns=3)))
    assert result.text == "on\non\non"
    assert result.end is not None
    assert result.end.reason == "limit:turns"


async def test_a_team_whose_member_asks_goes_on_there(make_runner: MakeRunner) -> None:
    """A41, B7: the choices made before the wait are not made again."""

    @agent
    async def asks(context: AgentContext) -> str:
        return "got " + (await context.ask("Which?")).text

    team = Team("desk", [member("one", "1", "never"), asks], selector=Iterative(order=["one", "asks"]), ends="escalated")
    runner = make_runner(team)
    limits = RunConfig(limits=Limits(turns=2))
    assert (await ask(runner, "go", config=limits)).text == "1\nWhich?"
    done = await ask(runner, "blue", config=limits)
    assert done.text == "got blue"
    assert done.end is not None
    assert done.end.reason == "limit:turns"
