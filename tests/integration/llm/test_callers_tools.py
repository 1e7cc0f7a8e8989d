"""Tools that callers offer with a message: who is shown them, and how calls wait (A6, A8, A42)."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from llm_play import answering, calls_of, last_results, results_of, told
from offers_play import CITY, PICK, SHOW, answer, awaited, desk, names, offering, shows
from pydantic import BaseModel
from runner_play import ask, key, reason

from turnwise import AgentContext, Content, Limits, RunConfig, Runner, agent
from turnwise.facts.content import ToolResultPart
from turnwise.facts.errors import UnknownToolCall
from turnwise.facts.messages import OfferedTool
from turnwise.facts.waits import is_late
from turnwise.testing.models import calls
from turnwise.tools.function import tool

Process = Callable[..., Runner]


async def test_the_model_may_call_it_and_the_caller_gives_the_result(process: Process) -> None:
    """A6, A42: the result comes to another process, as a message that offers nothing; the tools are there all the same."""
    agent_, model = desk(["Look.", shows()], "That is Bonn.")
    first = await ask(process(agent_), "where is Bonn?", context=offering())
    assert (reason(first), first.text) == ("waiting", "Look.")
    (call,) = calls_of(first.events)
    assert (call.tool, call.arguments, call.offered) == ("show_map", {"city": "Bonn"}, True)
    (open_,) = await awaited(process(agent_))
    assert (open_.call, open_.kind, open_.agent, open_.invocation_id) == (call, "tool_result", "desk", first.invocation_id)
    done = await answer(process(agent_), {"shown": True})
    assert (done.text, reason(done), done.invocation_id) == ("That is Bonn.", "completed", first.invocation_id)
    assert [(part.call_id, part.result) for part in last_results(model.requests[1])] == [(call.call_id, {"shown": True})]
    assert [(tool_.name, tool_.description, tool_.parameters) for tool_ in model.requests[0].tools] == [
        ("show_map", "Shows a map to the user.", CITY),
        ("pick_file", "Lets the user choose a file.", {"type": "object", "properties": {}}),
    ]
    assert model.requests[1].tools == model.requests[0].tools
    assert await awaited(process(agent_)) == []


async def test_a_reader_sees_from_the_first_piece_whose_call_it_is(process: Process) -> None:
    """A19."""

    @tool
    def look(place: str) -> str:
        return "seen"

    agent_, _ = desk([shows(), calls("look", {"place": "here"})], tools=[look])
    runner = process(agent_)
    pieces = [e async for e in runner.run("hi", user="ada", session="s", context=offering()) if e.partial]
    marked = {call.tool: call.offered for call in calls_of(pieces)}
    assert marked == {"show_map": True, "look": False}


async def test_the_next_message_offers_anew(process: Process) -> None:
    agent_, model = desk("One.", "Two.", "Three.")
    runner = process(agent_)
    await ask(runner, "one", context=offering(SHOW))
    await ask(runner, "two", context=offering(PICK))
    await ask(runner, "three")
    assert [names(request) for request in model.requests] == [["show_map"], ["pick_file"], []]


async def test_in_an_invocation_the_tools_of_its_first_message_count(process: Process) -> None:
    """Clients that send their tools with every message, and others, make no difference to it."""
    agent_, model = desk([shows()], [calls("pick_file")], "Done.")
    runner = process(agent_)
    await ask(runner, "go", context=offering())
    other = OfferedTool(name="other", parameters={"type": "object", "properties": {"x": True}})
    second = await answer(runner, context=offering(other))
    assert reason(second) == "waiting"
    done = await answer(runner, "a.txt", context=offering(SHOW, channel="web"))
    assert done.text == "Done."
    assert [names(request) for request in model.requests] == [["show_map", "pick_file"]] * 3


async def test_results_come_in_any_order_and_the_step_is_told_as_a_whole(process: Process) -> None:
    """A42: own tools run at once, before anything waits; of those of the caller each is answered by itself, or together."""
    ran: list[str] = []

    @tool
    async def look() -> str:
        ran.append("look")
        return "seen"

    agent_, model = desk([shows("A"), calls("look"), shows("B"), calls("pick_file")], "Done.", tools=[look])
    runner = process(agent_)
    first = await ask(runner, "go", context=offering())
    assert (reason(first), ran, told(first)) == ("waiting", ["look"], ["seen"])
    waits = await awaited(runner)
    assert [(each.tool, each.kind) for each in waits] == [
        (name, "tool_result") for name in ("show_map", "show_map", "pick_file")
    ]
    assert all(each.call and each.call.offered for each in waits)
    second = await answer(process(agent_), "B shown", place=1)
    assert reason(second) == "waiting"
    rest = [ToolResultPart(call_id=e.id, result=f"{e.tool} done") for e in await awaited(runner)]
    done = await ask(process(agent_), Content(parts=tuple(reversed(rest))))
    assert (done.text, ran, len(model.requests)) == ("Done.", ["look"], 2)
    assert [part.result for part in last_results(model.requests[1])] == ["show_map done", "seen", "B shown", "pick_file done"]


async def test_all_that_may_wait_waits_side_by_side_and_can_be_told_apart(process: Process) -> None:
    """A42: a question for leave, a late result, a call for the caller; what comes last comes when all of them are answered."""
    done_: list[str] = []

    def noted(name: str, **rules: Any) -> Any:
        @tool(name=name, **rules)
        async def note() -> str:
            done_.append(name)
            return f"{name} done"

        return note

    tools = [noted("pay", confirm=True), noted("prints", later=True), noted("ship", last=True)]
    agent_, model = desk([calls("ship"), calls("pay"), shows(), calls("prints")], "Done.", tools=tools)
    runner = process(agent_)
    await ask(runner, "go", context=offering())
    waits = {each.tool: each for each in await awaited(runner)}
    assert {tool_: (each.kind, each.call and is_late(each.call)) for tool_, each in waits.items()} == {
        "show_map": ("tool_result", False),
        "prints": ("tool_result", True),
        "confirm": ("confirmation", False),
    }
    asked = waits["confirm"]
    assert asked.call is not None
    assert (asked.text, asked.call.arguments["tool"]) == ("May I call pay?", "pay")
    for tool_, result in (("show_map", "shown"), ("confirm", True), ("prints", "printed")):
        assert "ship" not in done_
        place = [each.tool for each in await awaited(runner)].index(tool_)
        last = await answer(process(agent_), result, place=place)
    assert (last.text, done_) == ("Done.", ["prints", "pay", "ship"])
    assert [part.result for part in last_results(model.requests[1])] == ["ship done", "pay done", "shown", "printed"]


async def test_a_plain_message_meanwhile_leaves_the_call_open(process: Process) -> None:
    """A42: it begins an invocation with tools of its own; the model reads that the first result is still to come."""
    agent_, model = desk([shows()], "Fine weather.", "That is Bonn.")
    runner = process(agent_)
    first = await ask(runner, "where is Bonn?", context=offering())
    aside = await ask(runner, "how is the weather?", context=offering(PICK))
    assert (aside.text, aside.invocation_id != first.invocation_id) == ("Fine weather.", True)
    (heard,) = [part.result for message in model.requests[1].messages for part in message.tool_results]
    assert heard == "The result is still to come."
    assert names(model.requests[1]) == ["pick_file"]
    done = await answer(runner)
    assert names(model.requests[2]) == ["show_map", "pick_file"]
    assert (done.text, done.invocation_id) == ("That is Bonn.", first.invocation_id)


async def test_a_result_that_nobody_waits_for_is_refused(process: Process) -> None:
    """A8: also one that was given before; nothing is stored."""
    agent_, _ = desk([shows()], "Done.")
    runner = process(agent_)
    first = await ask(runner, "go", context=offering())
    (call,) = calls_of(first.events)
    await ask(runner, answering(call.call_id, "shown"))
    before = await runner.store.events(key())
    for id_ in (call.call_id, "call-x"):
        with pytest.raises(UnknownToolCall):
            await ask(runner, answering(id_, "again"))
    assert await runner.store.events(key()) == before


async def test_arguments_that_plainly_do_not_fit_go_back_to_the_model(process: Process) -> None:
    """The caller is not troubled with them."""
    agent_, model = desk([calls("show_map", {"town": "Bonn"}), calls("pick_file", "{not json")], [shows()], "Done.")
    runner = process(agent_)
    first = await ask(runner, "go", context=offering())
    missing, broken = last_results(model.requests[1])
    assert (missing.failed, str(missing.result)) == (True, "The arguments do not fit: 'city' is missing. Parameters: city.")
    assert broken.failed
    assert [each.call and each.call.arguments for each in await awaited(runner)] == [{"city": "Bonn"}]
    assert (await answer(runner)).invocation_id == first.invocation_id


async def test_a_failed_result_is_told_as_one_and_a_long_one_is_cut(process: Process) -> None:
    agent_, model = desk([shows(), shows()], "Sorry.", result_characters=20)
    runner = process(agent_)
    await ask(runner, "go", context=offering())
    first, second = (each.id for each in await awaited(runner))
    await ask(runner, answering(first, "no screen", failed=True))
    await ask(runner, answering(second, "x" * 50))
    failed, long = last_results(model.requests[1])
    assert (failed.result, failed.failed) == ("no screen", True)
    assert str(long.result).startswith("x" * 20 + "… [cut")


async def test_an_agents_own_tool_of_that_name_wins(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    """Also one of a toolset; that the caller's is left out is told to whoever runs it."""

    @tool(name="show_map")
    async def own(city: str) -> str:
        return f"our {city}"

    @tool(name="pick_file")
    async def theirs() -> str:
        return "our file"

    class Files:
        async def tools(self, context: AgentContext) -> list[Any]:
            return [theirs]

        async def close(self) -> None:
            pass

    agent_, model = desk([shows(), calls("pick_file")], "Done.", tools=[own, Files()])
    with caplog.at_level(logging.INFO, "turnwise.agents"):
        result = await ask(process(agent_), "go", context=offering())
    assert (told(result), reason(result)) == (["our Bonn", "our file"], "completed")
    assert names(model.requests[0]) == ["show_map", "pick_file"]
    assert not any(call.offered for call in calls_of(result.events))
    noted = "Agent 'desk' has tools of its own named pick_file, show_map: those that the caller offers are not used."
    assert caplog.messages == [noted]


async def test_an_agent_may_refuse_them(process: Process) -> None:
    """A model that calls one all the same is told that it has no such tool."""
    agent_, model = desk([shows()], "Sorry.", callers_tools=False)
    result = await ask(process(agent_), "go", context=offering())
    assert (names(model.requests[0]), reason(result)) == ([], "completed")
    assert told(result) == ["There is no tool 'show_map'. Your tools: none."]


async def test_its_calls_count_as_steps_of_the_run(process: Process) -> None:
    """Over all the messages that it goes on with: a caller cannot keep an agent going for ever."""
    agent_, model = desk(*[[shows()]] * 9)
    runner = process(agent_, config=RunConfig(limits=Limits(steps=3)))
    await ask(runner, "go", context=offering())
    await answer(runner)
    await answer(runner)
    last = await answer(runner)
    assert (reason(last), len(model.requests)) == ("limit:steps", 3)
    assert await awaited(runner) == []


async def test_its_schema_counts_in_what_a_model_is_sent(process: Process) -> None:
    """A caller that offers more than the agent has room for is told so, and the session goes on."""
    agent_, _ = desk("Hello.")
    large = SHOW.replace(description="word " * 40_000)
    runner = process(agent_)
    result = await ask(runner, "hi", context=offering(large))
    assert result.error is not None
    assert (result.error.code, "largest tool is 'show_map'" in result.error.message) == ("agent.failed", True)
    assert (await ask(runner, "hi")).text == "Hello."


async def test_an_agent_that_gives_an_answer_of_a_type_may_call_them(process: Process) -> None:
    class Place(BaseModel):
        city: str

    agent_, model = desk([shows()], [calls("final_answer", {"city": "Bonn"}), calls("pick_file")], output_type=Place)
    runner = process(agent_)
    await ask(runner, "go", context=offering())
    second = await answer(runner)
    assert (reason(second), names(model.requests[0])) == ("waiting", ["final_answer", "show_map", "pick_file"])
    done = await answer(runner, "a.txt")
    assert [part.result for part in results_of(done.events)] == ["Taken.", "a.txt"]


async def test_a_waiting_call_that_is_cancelled_leaves_a_log_that_goes_on(process: Process) -> None:
    """A23."""
    agent_, model = desk([shows()], "Hello.")
    runner = process(agent_)
    first = await ask(runner, "go", context=offering())
    await runner.sessions.cancel(key(), first.invocation_id)
    assert await awaited(runner) == []
    assert (await ask(runner, "hi", context=offering())).text == "Hello."
    (result,) = [part for message in model.requests[1].messages for part in message.tool_results]
    assert result.failed


async def test_an_answer_that_is_made_again_has_the_same_tools(process: Process) -> None:
    """A44."""
    agent_, model = desk([shows()], "One.", "Two.")
    runner = process(agent_)
    first = await ask(runner, "go", context=offering())
    await answer(runner)
    again = await (await runner.regenerate(key(), first.invocation_id)).result()
    assert again.text == "Two."
    assert names(model.requests[2]) == ["show_map", "pick_file"]


async def test_an_agent_of_your_own_may_call_them_too(process: Process) -> None:
    """By `ask`, of what the message offers; any other call is for somebody else to answer."""

    @agent(name="guide")
    async def guide(message: str, context: AgentContext) -> str:
        offered = [each.name for each in context.message_context.tools]
        shown = await context.ask("Look.", tool="show_map", arguments={"city": "Bonn"}, offered=True)
        signed = await context.ask("Sign.", tool="sign")
        return f"{offered} {shown.tool_results[0].result} {signed.tool_results[0].result}"

    runner = process(guide)
    await ask(runner, "go", context=offering())
    (look,) = await awaited(runner)
    assert (look.text, look.call and look.call.offered) == ("Look.", True)
    await answer(runner)
    assert [(each.tool, each.call and each.call.offered) for each in await awaited(runner)] == [("sign", False)]
    assert (await answer(runner, "signed")).text == "['show_map', 'pick_file'] shown signed"
