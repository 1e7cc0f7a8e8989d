"""Tools of callers where several agents answer: hand-overs, teams, composites, flows; and where one dies (A36, A41, D3)."""

from collections.abc import Callable
from typing import Any

import pytest
from assigned_play import Turn, Turns
from llm_play import answering, calls_of, last_results, noted, results_of, told
from offers_play import answer, awaited, names, offering, shows
from runner_play import Crash, ask, key, kill, reason, texts

from turnwise import Loop, Parallel, Runner, Sequential, Team, agent
from turnwise.agents.llm import LlmAgent
from turnwise.facts.content import text_content
from turnwise.facts.messages import Message
from turnwise.facts.selections import Verdict
from turnwise.flows.planned import Several
from turnwise.selection.conversational import Conversational
from turnwise.selection.policy import PolicySpec, StageSpec
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.built_in import AgentTool
from turnwise.tools.function import tool

Process = Callable[..., Runner]
DONE = calls("task_succeeded", {"result": 1})


def llm(name: str, *replies: Any, **options: Any) -> tuple[LlmAgent, ScriptedModel]:
    model = ScriptedModel(*replies)
    return LlmAgent(name, model=model, **options), model


async def test_who_is_handed_the_floor_has_them_too(process: Process) -> None:
    """A36: the call waits in the second turn, and its result goes to whom made it, in another process."""
    guide, seen = llm("guide", [shows()], "That is Bonn.")
    front, model = llm("front", [shows("A")], [calls("transfer_to_agent", {"agent": "guide"})], children=[guide])
    await ask(process(front, policy="adk"), "go", context=offering())
    second = await answer(process(front, policy="adk"))
    assert (reason(second), [each.agent for each in await awaited(process(front))]) == ("waiting", ["guide"])
    done = await answer(process(front, policy="adk"), "shown by guide")
    assert done.text == "That is Bonn."
    assert [part.result for part in last_results(seen.requests[1])] == ["shown by guide"]
    assert [names(request) for request in (*model.requests, *seen.requests)] == [
        ["transfer_to_agent", "show_map", "pick_file"],
        ["transfer_to_agent", "show_map", "pick_file"],
        ["transfer_to_agent", "show_map", "pick_file"],
        ["transfer_to_agent", "show_map", "pick_file"],
    ]


async def test_the_floor_moves_when_the_caller_has_answered(process: Process) -> None:
    """A40: a hand-over beside a call of a caller's tool comes last, as beside any other."""
    guide, _ = llm("guide", "I take over.")
    front, _ = llm("front", [calls("transfer_to_agent", {"agent": "guide"}), shows()], children=[guide])
    runner = process(front, policy="adk")
    first = await ask(runner, "go", context=offering())
    assert (reason(first), [e for e in first.events if e.actions.transfer_to]) == ("waiting", [])
    done = await answer(runner)
    assert [(part.tool, part.result) for part in results_of(done.events)] == [
        ("transfer_to_agent", "guide takes over."),
        ("show_map", "shown"),
    ]
    assert done.text == "I take over."


async def test_every_member_of_a_team_has_them(process: Process) -> None:
    """B7."""
    writer, first = llm("writer", [shows()], "A draft.<next>@critic</next>")
    critic, second = llm("critic", [shows("there")], "Fine.")
    team = Team("desk", [writer, critic], selector=Conversational(lead="writer"))
    await ask(process(team), "write", context=offering())
    await answer(process(team))
    done = await answer(process(team))
    assert (done.text, first.left, second.left) == ("Fine.", 0, 0)
    assert [names(request) for request in (*first.requests, *second.requests)] == [["show_map", "pick_file"]] * 4


@pytest.mark.parametrize("kind", [Sequential, Parallel, Loop])
async def test_every_part_of_a_composite_has_them(process: Process, kind: Any) -> None:
    """A41: also side by side, where both wait, and each result finds its call."""
    one, first = llm("one", [shows("1")], "One.")
    two, second = llm("two", [shows("2")], "Two.")
    whole = kind("whole", [one, two], **({"max_iterations": 1} if kind is Loop else {}))
    await ask(process(whole), "go", context=offering())
    while open_ := await awaited(process(whole)):
        last = open_[-1].call
        assert last is not None
        done = await ask(process(whole), answering(last.call_id, f"shown {last.arguments['city']}"))
    assert reason(done) == "completed"
    assert [last_results(model.requests[1])[0].result for model in (first, second)] == ["shown 1", "shown 2"]


async def test_who_is_asked_in_private_has_none(process: Process) -> None:
    """What it is asked is another agent's business, and no call may carry it out to the caller."""
    helper, model = llm("helper", [shows()], "I cannot.")
    asking = calls("ask_helper", {"message": "secret"})
    front, own = llm("front", [asking], "Sorry.", tools=[AgentTool(helper)], children=[helper])
    result = await ask(process(front), "go", context=offering())
    assert (reason(result), [names(request) for request in model.requests]) == ("completed", [[], []])
    assert names(own.requests[1])[-2:] == ["show_map", "pick_file"]
    assert not any(call.offered for call in calls_of(result.events))


async def test_who_does_a_task_of_a_flow_has_none(process: Process) -> None:
    """D3: a task is the flow's, who thought of it without the caller; the flow goes on without one."""
    worker, model = llm("a", [shows(), DONE])
    flow = Turns(Turn("a", "count"), agents=[worker])
    result = await ask(process(flow), "go", context=offering())
    assert (reason(result), names(model.requests[0])) == ("completed", ["task_succeeded", "end_turn"])
    assert told(result)[0] == "There is no tool 'show_map'. Your tools: task_succeeded, end_turn."
    part, inside = llm("part", "Three.")
    whole = Turns(Turn("pipe", "count"), agents=[Sequential("pipe", [part])])
    await ask(process(whole), "go", session="other", context=offering())
    assert names(inside.requests[0]) == []


async def test_who_answers_a_part_of_the_message_itself_has_them(process: Process) -> None:
    """D3: a flow that only hands the message on stands between nobody and the caller."""

    class Both:
        name = "both"

        def __init__(self, _: Any) -> None:
            pass

        async def select(self, _: Any) -> Verdict:
            return Verdict(selector=self.name, outcome="chosen", agent="a", method="both", reason="Both.", also=("b",))

    one, first = llm("a", [shows("a")], "A done.")
    two, second = llm("b", [shows("b")], "B done.")

    @agent(name="desk", children=[one, two, Several()])
    def desk() -> str:
        return "Hello."

    policy = PolicySpec(stages=(StageSpec(selector="both"),), several="several")
    options: dict[str, Any] = {"policy": policy, "custom_selectors": {"both": Both}}
    await ask(process(desk, **options), "go", context=offering())
    assert [each.agent for each in await awaited(process(desk))] == ["a", "b"]
    await answer(process(desk, **options), place=1)
    done = await answer(process(desk, **options))
    assert (done.events[-1].text, first.left, second.left) == ("A done.\n\nB done.", 0, 0)


async def test_a_process_dies_before_the_call_waits(process: Process) -> None:
    """Decision 6: beside it runs a tool of the agent; the model is not asked again, and the caller is asked once."""
    crash, ran = Crash(), list[str]()

    @tool
    async def slow() -> str:
        await crash.here()
        return "slow"

    quick = noted(ran, "quick", "quick")
    worker, model = llm("desk", [shows(), calls("slow"), calls("quick")], "Done.", tools=[slow, quick])
    await kill(process, worker, crash, "go", context=offering())
    alive = process(worker)
    assert await awaited(alive) == []
    await alive.recover()
    (open_,) = await awaited(alive)
    assert (open_.tool, open_.kind, len(model.requests)) == ("show_map", "tool_result", 1)
    done = await answer(process(worker))
    assert (done.text, [part.result for part in last_results(model.requests[1])]) == ("Done.", ["shown", "slow", "quick"])
    assert set(ran) == {"quick"}


async def test_a_process_dies_with_the_result_in_its_hands(process: Process) -> None:
    """Decision 6, A6: whoever takes it up has the result, and the tools of the message that began it all."""
    crash = Crash()

    @tool(last=True)
    async def slow() -> str:
        await crash.here()
        return "slow"

    worker, model = llm("desk", [shows(), calls("slow")], [calls("pick_file")], "Done.", tools=[slow])
    first = await ask(process(worker), "go", context=offering())
    (call, _) = calls_of(first.events)
    await kill(process, worker, crash, answering(call.call_id, "shown"))
    alive = process(worker)
    await alive.recover()
    assert [part.result for part in last_results(model.requests[1])] == ["shown", "slow"]
    assert names(model.requests[1]) == ["slow", "show_map", "pick_file"]
    assert [each.tool for each in await awaited(alive)] == ["pick_file"]
    await answer(alive, "a.txt")
    assert (await texts(alive))[-1] == "Done."


async def test_a_process_dies_before_its_model_has_answered(process: Process) -> None:
    """Decision 6: the message came with its tools; it is taken up with them."""
    crash = Crash()

    async def thinks(_: Any) -> Any:
        await crash.here()
        return [shows()]

    worker, model = llm("desk", thinks, thinks, "Done.")
    await kill(process, worker, crash, "go", context=offering())
    alive = process(worker)
    await alive.recover()
    assert [names(request) for request in model.requests] == [["show_map", "pick_file"]] * 2
    await answer(alive)
    assert (await texts(alive))[-1] == "Done."


async def test_a_message_that_waited_in_line_comes_with_its_tools(process: Process) -> None:
    """Decision 3: also when who answers it is another process than who took it."""
    worker, model = llm("desk", [shows()], "Done.")
    runner = process(worker)
    message = Message(id="m", content=text_content("go", "user"), context=offering())
    await runner.store.inbox.accept(key(), message, create=True, limit=9)
    await runner.recover()
    assert names(model.requests[0]) == ["show_map", "pick_file"]
    assert (await answer(process(worker))).text == "Done."


async def test_a_deployment_without_the_tools_still_hears_the_result(process: Process) -> None:
    """A6, A42: the call itself says whose it is. The agent has by now a tool of that name, or takes none of callers."""
    ran: list[str] = []
    model = ScriptedModel([shows()], "Done.")
    before = LlmAgent("desk", model=model)
    after = LlmAgent("desk", model=model, tools=[noted(ran, "show_map", "ours")], callers_tools=False)
    first = await ask(process(before), "go", context=offering())
    done = await answer(process(after))
    assert (done.text, done.invocation_id, ran) == ("Done.", first.invocation_id, [])
    assert [part.result for part in last_results(model.requests[1])] == ["shown"]
    assert names(model.requests[1]) == ["show_map"]
    assert (await process(after).sessions.get(key())).head.waiting() == ()
