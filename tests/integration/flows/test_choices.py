"""What a flow goes by: what it was asked, who was in reach, whom its moderator named (D3, D5)."""

from collections.abc import Callable

import pytest
from flow_play import closings, done, ended, statuses, turns, words
from runner_play import ask, direct, reason

from turnwise import AgentContext, LlmAgent, MessageContext, Runner, agent
from turnwise.agents.function import FunctionAgent
from turnwise.flows.flow import Flow
from turnwise.flows.logged import TURN_END, data_of
from turnwise.flows.strategies import Moderated, MostBusy
from turnwise.flows.tasks import Task
from turnwise.testing.models import ScriptedModel

Process = Callable[..., Runner]
MANAGER = MessageContext(roles=("manager",))


def saying(name: str, ran: list[str], **card: object) -> FunctionAgent:
    @agent(name=name, **card)  # type: ignore[call-overload,untyped-decorator]
    async def says() -> str:
        ran.append(name)
        return f"{name} was here."

    return says  # type: ignore[no-any-return]


def asking(name: str, ran: list[str], **card: object) -> FunctionAgent:
    @agent(name=name, **card)  # type: ignore[call-overload,untyped-decorator]
    async def asks(context: AgentContext) -> str:
        ran.append(name)
        return f"{name}: {(await context.ask('Which day?')).text}"

    return asks  # type: ignore[no-any-return]


class TestWhatItWasAsked:
    """D3: an agent with a model reads the request in the log, or is told it."""

    async def test_the_users_message_is_not_told_again(self, process: Process) -> None:
        model = ScriptedModel(done("ok"))
        await ask(process(_writing(model)), "Tell me of owls.", context=direct("inner"))
        assert words(model.requests[0]).count("Tell me of owls.") == 1
        assert "The request:" not in words(model.requests[0])

    async def test_nor_when_it_was_handed_over_as_it_is(self, process: Process) -> None:
        model = ScriptedModel(done("ok"))

        @agent(children=[_writing(model)])
        async def door(context: AgentContext) -> None:
            await context.transfer("inner")

        await ask(process(door), "Tell me of owls.", context=direct("door"))
        assert "The request:" not in words(model.requests[0])

    async def test_a_flow_that_is_a_task_passes_on_its_own(self, process: Process) -> None:
        model = ScriptedModel(done("ok"))
        outer = Flow(
            "outer",
            [
                Task("facts", agents=[saying("facts", [])]),
                Task("article", "Write of owls.", agents=[_writing(model)], depends_on=["facts"]),
            ],
        )
        await ask(process(outer), "please", context=direct("outer"))
        told = words(model.requests[0])
        assert "Your task 'article': Write of owls." in told
        assert "- facts: facts was here." in told

    async def test_a_flow_that_is_called_passes_on_what_its_caller_said(self, process: Process) -> None:
        model = ScriptedModel(done("ok"))

        @agent(children=[_writing(model)])
        async def caller(context: AgentContext) -> str:
            return (await context.call("inner", "Tell me of owls.")).text

        await ask(process(caller), "please", context=direct("caller"))
        assert "The request: Tell me of owls." in words(model.requests[0])

    async def test_a_flow_that_was_briefed_passes_on_its_brief(self, process: Process) -> None:
        model = ScriptedModel(done("ok"))

        @agent(children=[_writing(model)])
        async def door(context: AgentContext) -> None:
            await context.transfer("inner", message="It is about owls.")

        await ask(process(door), "please", context=direct("door"))
        assert "The request: It is about owls." in words(model.requests[0])


def _writing(model: ScriptedModel) -> Flow:
    return Flow("inner", [Task("write", "Write it.", agents=[LlmAgent("writer", model=model)])])


class TestRoles:
    """Who answers may have fewer roles than who asked: they decide on what comes, and take nothing back."""

    @pytest.mark.parametrize("side_by_side", [1, 2])
    async def test_what_was_done_stays_done(self, process: Process, side_by_side: int) -> None:
        ran: list[str] = []
        flow = Flow(
            "flow",
            [
                Task("approve", agents=[saying("boss", ran, roles=("manager",))]),
                Task("look", agents=[saying("looker", ran)]),
                Task("book", agents=[asking("clerk", ran)], depends_on=["approve", "look"]),
            ],
            side_by_side=side_by_side,
        )
        runner = process(flow)
        assert reason(await ask(runner, "go", context=MANAGER)) == "waiting"
        result = await ask(runner, "Monday")
        assert (reason(result), result.text) == ("completed", "clerk: Monday")
        assert sorted(ran) == ["boss", "clerk", "clerk", "looker"]

    async def test_what_a_model_did_stays_done_too(self, process: Process) -> None:
        """Though its first turn only said something, and its second ended the task."""
        boss = ScriptedModel("Let me see.", done("Approved."))
        flow = Flow(
            "flow",
            [
                Task("approve", agents=[LlmAgent("boss", model=boss, roles=("manager",))]),
                Task("book", agents=[asking("clerk", [])], depends_on=["approve"]),
            ],
        )
        runner = process(flow)
        assert reason(await ask(runner, "go", context=MANAGER)) == "waiting"
        result = await ask(runner, "Monday")
        assert (reason(result), result.text, len(boss.requests)) == ("completed", "clerk: Monday", 2)
        assert ended(result.events)["model_calls"] == 2
        log = await runner.store.events(runner.key("ada", "s"))
        assert [who for who, _, _ in turns(log)] == ["boss", "boss", "clerk"]
        assert not [event for event in log if data_of(event, TURN_END)]

    async def test_nor_is_another_chosen_for_a_turn_that_was(self, process: Process) -> None:
        """More roles do not change it either."""
        ran: list[str] = []
        agents = [saying("boss", ran, roles=("manager",)), asking("clerk", ran)]
        flow = Flow("flow", [Task("one", agents=agents), Task("two", agents=["clerk"])], side_by_side=2, strategy=MostBusy())
        runner = process(flow)
        assert reason(await ask(runner, "go")) == "waiting"
        waiting = await ask(runner, "Monday", context=MANAGER)
        log = await runner.store.events(runner.key("ada", "s"))
        assert closings(log)["one"].result == "clerk: Monday"
        assert (reason(waiting), ran) == ("waiting", ["clerk", "clerk", "clerk"])

    async def test_who_waited_and_is_out_of_reach_leaves_the_task_to_others(self, process: Process) -> None:
        ran: list[str] = []
        flow = Flow("flow", [Task("one", agents=[asking("boss", ran, roles=("manager",)), saying("deputy", ran)])])
        runner = process(flow)
        assert reason(await ask(runner, "go", context=MANAGER)) == "waiting"
        result = await ask(runner, "Monday")
        assert (reason(result), result.text, ran) == ("completed", "deputy was here.", ["boss", "deputy"])
        assert [who for who, _, _ in turns(await runner.store.events(runner.key("ada", "s")))] == ["boss", "deputy"]

    async def test_and_to_nobody_when_there_is_no_other(self, process: Process) -> None:
        runner = process(Flow("flow", [Task("one", agents=[asking("boss", [], roles=("manager",))])]))
        await ask(runner, "go", context=MANAGER)
        result = await ask(runner, "Monday")
        assert (reason(result), result.error and result.error.code) == ("failed", "agent.flow_stuck")
        assert (ended(result.events)["reason"], statuses(result.events)) == ("stuck", {"one": "pending"})


async def test_a_moderators_tag_counts_more_than_who_else_it_mentions(process: Process) -> None:
    """D5: the tag is taken out of its answer before that is read."""
    ran: list[str] = []
    chair = agent(name="chair")(lambda: "alice had her turn yesterday, so it is <next>@bob</next>")
    tasks = [Task("one", agents=[saying("alice", ran)]), Task("two", agents=[saying("bob", ran)])]
    result = await ask(process(Flow("flow", tasks, agents=[chair], strategy=Moderated("chair"))), "go")
    assert (reason(result), ran) == ("completed", ["bob", "alice"])


async def test_a_result_is_measured_as_it_is_stored(process: Process) -> None:
    """It may be as long as a message, in any script."""
    flow = Flow("flow", [Task("one", agents=[agent(name="writer")(lambda: "雪" * 60_000)])])
    result = await ask(process(flow), "go")
    assert (reason(result), result.text) == ("completed", "雪" * 60_000)
