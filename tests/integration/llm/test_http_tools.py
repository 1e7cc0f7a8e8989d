"""Tools over real HTTP: calls, wrong ones, results that come late, agents as tools, and answers of a type (decisions 6, 7)."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from llm_http import Line, Wire, calls, results
from llm_play import answering, calls_of, results_of, told
from llm_servers import Answer, Fault
from offers_play import SHOW, answer, offering
from pydantic import BaseModel
from runner_play import ask, reason, texts

from turnwise import DataPart, Limits, RunConfig, Runner
from turnwise.agents.llm import LlmAgent
from turnwise.facts.content import ToolCallPart
from turnwise.tools.built_in import AgentTool, ask_user
from turnwise.tools.function import tool

Process = Callable[..., Runner]
EVERY = pytest.mark.parametrize("wire", ["openai", "anthropic", "responses"], indirect=True)


async def weather(city: str, days: int = 1) -> dict[str, Any]:
    """Says the weather.

    Args:
        city: Where.
    """
    return {"city": city, "sky": "clear", "days": days}


@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
@EVERY
async def test_a_tool(process: Process, wire: Wire, streaming: bool) -> None:
    """The service gets its schema; the result goes back beside the call, in this turn and the next."""
    wire.say(calls(("weather", {"city": "Rome"}), text="Let me see."), "Clear in Rome.", "Gladly.")
    runner = process(LlmAgent("clerk", model=wire.model(), tools=[weather]), config=RunConfig(streaming=streaming))
    done = await ask(runner, "weather in Rome?")
    assert (done.text, reason(done)) == ("Let me see.\nClear in Rome.", "completed")
    await ask(runner, "thanks")
    [first_tool] = wire.bodies()[0]["tools"]
    schema = json.dumps(first_tool)
    assert "Says the weather." in schema
    assert "Where." in schema
    seen = [
        Line("user", "weather in Rome?"),
        Line("assistant", "Let me see."),
        Line("assistant", '(calls) weather {"city": "Rome"}'),
        Line("tool", 'weather: {"city":"Rome","sky":"clear","days":1}'),
    ]
    assert wire.sent()[1] == seen
    assert wire.sent()[2] == [*seen, Line("assistant", "Clear in Rome."), Line("user", "thanks")]


@EVERY
async def test_parallel_tools(process: Process, wire: Wire) -> None:
    """They run at the same time; the results go back in the order of the calls, each beside its own."""
    slow_may_end = asyncio.Event()

    async def slow() -> str:
        await slow_may_end.wait()
        return "slow"

    async def quick() -> str:
        slow_may_end.set()
        return "quick"

    async def broken() -> str:
        raise KeyError("no such shelf")

    wire.say(calls(("slow", {}), ("quick", {}), ("broken", {})), "All done.")
    done = await ask(process(LlmAgent("clerk", model=wire.model(), tools=[slow, quick, broken])), "go")
    assert (done.text, reason(done)) == ("All done.", "completed")
    first, second, third = results(wire.sent()[1])
    assert (first, second) == ("slow: slow", "quick: quick")
    assert "no such shelf" in third
    assert "Traceback" not in third


@EVERY
async def test_arguments_come_in_pieces_under_the_id_of_the_call(process: Process, wire: Wire) -> None:
    """A19."""
    wire.say(calls(("weather", {"city": "Rome"}), ("weather", {"city": "Oslo"})), "Both clear.")
    runner = process(LlmAgent("clerk", model=wire.model(), tools=[weather]))
    written: dict[str, str] = {}
    async for event in runner.run("weather?", user="ada", session="s"):
        for part in event.content.parts if event.partial and event.content else ():
            if isinstance(part, ToolCallPart):
                written[part.call_id] = written.get(part.call_id, "") + (part.raw or "")
    stored = calls_of(await runner.store.events(runner.key("ada", "s")))
    assert {call.call_id: call.arguments for call in stored} == {id_: json.loads(raw) for id_, raw in written.items()}


@EVERY
async def test_a_tool_of_the_caller(process: Process, wire: Wire) -> None:
    """A42: offered with its schema; the result stands beside the call, after a message that came between, and ever after."""
    wire.say(
        calls(("show_map", {"city": "Rome"}), ("weather", {"city": "Rome"}), text="Look."), "Wait.", "That is Rome.", "Gladly."
    )
    runner = process(LlmAgent("clerk", model=wire.model(), tools=[weather]))
    first = await ask(runner, "where is Rome?", context=offering(SHOW))
    assert (reason(first), wire.offered()) == ("waiting", [["weather", "show_map"]])
    assert "Shows a map to the user." in json.dumps(wire.bodies()[0]["tools"])
    assert (await ask(runner, "well?")).text == "Wait."
    assert results(wire.sent()[1])[0] == "show_map: The result is still to come."
    done = await answer(runner, {"shown": True})
    assert (done.text, done.invocation_id) == ("That is Rome.", first.invocation_id)
    beside = ['show_map: {"shown":true}', 'weather: {"city":"Rome","sky":"clear","days":1}']
    assert results(wire.sent()[2]) == beside
    assert (await ask(runner, "thanks")).text == "Gladly."
    assert results(wire.sent()[3]) == beside


@pytest.mark.parametrize("wrong", ['{"city": "Ro', "[1, 2]", '{"town": "Rome"}', '{"city": 3, "days": "many"}'])
async def test_wrong_arguments_are_told_and_made_right(process: Process, wire: Wire, wrong: str) -> None:
    """Decision 7: no JSON, no object, a name that is missing, values of the wrong kind."""
    wire.say(calls(("weather", wrong)), calls(("weather", {"city": "Rome"})), "Clear.", "Gladly.")
    runner = process(LlmAgent("clerk", model=wire.model(), tools=[weather]))
    done = await ask(runner, "weather?")
    assert (done.text, reason(done)) == ("Clear.", "completed")
    assert [part.failed for part in results_of(done.events)] == [True, False]
    [failed] = results(wire.sent()[1])
    assert "city" in failed or "JSON object" in failed
    assert (await ask(runner, "thanks")).text == "Gladly."


@EVERY
@pytest.mark.parametrize("name", ["wether", "weather in Rome?", "ns.weather", "x" * 100])
async def test_an_unknown_tool_is_told_with_those_there_are(process: Process, wire: Wire, name: str) -> None:
    """Decision 7: also when its name is one that no service would take back."""
    wire.say(calls((name, {"city": "Rome"})), calls(("weather", {"city": "Rome"})), "Clear.", "Gladly.")
    runner = process(LlmAgent("clerk", model=wire.model(), tools=[weather]))
    done = await ask(runner, "weather?")
    assert (done.text, reason(done)) == ("Clear.", "completed")
    assert str(told(done)[0]).endswith("Your tools: weather.")
    assert (await ask(runner, "thanks")).text == "Gladly."


async def test_a_loop_without_end_is_stopped(process: Process, wire: Wire) -> None:
    """limits.steps: every call has its result, so the next message finds a conversation that the service takes."""
    wire.say(*[calls(("weather", {"city": "Rome"}))] * 4, "I stop.")
    runner = process(LlmAgent("clerk", model=wire.model(), tools=[weather]))
    endless = await ask(runner, "weather?", config=RunConfig(limits=Limits(steps=4)))
    assert (reason(endless), len(wire.bodies())) == ("limit:steps", 4)
    assert endless.error is not None
    assert endless.error.code == "limit"
    assert (await ask(runner, "stop")).text == "I stop."
    assert len(results(wire.sent()[-1])) == 4


async def test_late_results_in_reverse_order(process: Process, wire: Wire) -> None:
    """A42: by other processes; the service reads them beside their calls, in the order of the calls."""
    begun: list[str] = []

    @tool(later=True)
    async def print_book(title: str) -> str:
        begun.append(title)
        return "The printer has begun."

    clerk = LlmAgent("clerk", model=wire.model(), tools=[print_book])
    wire.say(calls(("print_book", {"title": "A"}), ("print_book", {"title": "B"})), "Meanwhile.", "Both.", "Gladly.")
    first = await ask(process(clerk), "print A and B")
    a, b = [call.call_id for call in calls_of(first.events)]
    assert (reason(first), sorted(begun)) == ("waiting", ["A", "B"])
    assert reason(await ask(process(clerk), answering(b, "B is printed"))) == "waiting"
    assert (await ask(process(clerk), "how far are you?")).text == "Meanwhile."
    done = await ask(process(clerk), answering(a, "The printer is on fire", failed=True))
    assert (done.text, reason(done), sorted(begun)) == ("Both.", "completed", ["A", "B"])
    assert results(wire.sent()[1])[1] == "print_book: B is printed"
    assert "still to come" in results(wire.sent()[1])[0]
    on_fire, printed = results(wire.sent()[2])
    assert "The printer is on fire" in on_fire
    assert printed == "print_book: B is printed"
    assert (await ask(process(clerk), "thanks")).text == "Gladly."


async def test_an_agent_as_a_tool(process: Process, wire: Wire) -> None:
    """Its words are a result of the one who asked, and nobody else's to read; nor is what it did for them."""
    wire.cast(
        front=[calls(("ask_expert", {"message": "How high is it?"})), "It is 330 m high.", "Gladly."],
        expert=[calls(("look_up", {"what": "Eiffel"})), "330 m."],
    )

    async def look_up(what: str) -> str:
        return f"{what}: 330"

    expert = LlmAgent("expert", model=wire.model("expert"), description="Knows heights.", tools=[look_up])
    front = LlmAgent("front", model=wire.model("front"), tools=[AgentTool(expert)], children=[expert])
    runner = process(front, policy="elemental-identity")
    done = await ask(runner, "The Eiffel tower?")
    assert (done.text, reason(done)) == ("It is 330 m high.", "completed")
    assert wire.sent("expert")[0][-1] == Line("user", '<said by="front" to="you">How high is it?</said>')
    assert results(wire.sent("front")[1]) == ["ask_expert: 330 m."]
    await ask(runner, "thanks")
    assert "look_up" not in str(wire.sent("front"))
    assert await texts(runner) == ["The Eiffel tower?", "330 m.", "It is 330 m high.", "thanks", "Gladly."]


async def test_an_agent_that_failed_as_a_tool_is_not_asked_again(process: Process, wire: Wire) -> None:
    """Decision 6: when the turn is taken up again after a wait, in another process."""
    wire.cast(
        front=[calls(("ask_expert", {"message": "How high?"})), calls(("ask_user", {"question": "Why?"})), "Never mind."],
        expert=[Fault(400)],
    )
    expert = LlmAgent("expert", model=wire.model("expert"))
    front = LlmAgent("front", model=wire.model("front"), tools=[AgentTool(expert), ask_user], children=[expert])
    assert (await ask(process(front, policy="adk"), "The Eiffel tower?")).text == "Why?"
    done = await ask(process(front, policy="adk"), "for fun")
    assert (done.text, len(wire.bodies("expert"))) == ("Never mind.", 1)
    assert "refused the request" in results(wire.sent("front")[-1])[0]


class Report(BaseModel):
    city: str
    degrees: int


@EVERY
async def test_an_answer_of_a_type(process: Process, wire: Wire) -> None:
    """The first does not fit and is told why; the second is data, and in the state."""
    wire.say(
        calls(("final_answer", {"city": "Rome", "degrees": "hot"})),
        calls(("final_answer", {"city": "Rome", "degrees": 31})),
        calls(("final_answer", {"city": "Oslo", "degrees": 4})),
    )
    runner = process(LlmAgent("clerk", model=wire.model(), output_type=Report, output_key="report"))
    done = await ask(runner, "Rome?")
    said = [part.data for e in done.events if e.content for part in e.content.parts if isinstance(part, DataPart)]
    assert (said, reason(done)) == ([{"city": "Rome", "degrees": 31}], "completed")
    assert (await runner.sessions.get(runner.key("ada", "s"))).state == {"report": {"city": "Rome", "degrees": 31}}
    [wrong] = results(wire.sent()[1])
    assert "degrees: Input should be a valid integer" in wrong
    assert reason(await ask(runner, "Oslo?")) == "completed"
    chosen = [body["tool_choice"] for body in wire.bodies()]
    assert chosen in (["required"] * 3, [{"type": "any"}] * 3)


async def test_text_instead_of_an_answer_of_a_type(process: Process, wire: Wire) -> None:
    """Some services let a model talk although a call is demanded of it."""
    wire.say("It is 31 degrees.", Answer(calls=(("final_answer", {"city": "Rome", "degrees": 31}),)))
    done = await ask(process(LlmAgent("clerk", model=wire.model(), output_type=Report)), "Rome?")
    assert (done.text, reason(done)) == ("", "completed")
    assert [line.role for line in wire.sent()[1] if line.role != "system"] == ["user", "assistant", "user"]
