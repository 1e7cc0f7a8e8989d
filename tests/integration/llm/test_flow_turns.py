"""LLM agents in turns that a flow gives them (D6 to D8)."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from assigned_play import Turn, Turns
from llm_play import heard, last_results, results_of, told
from runner_play import Crash, ask, key, kill, reason

from turnwise import AgentContext, Event, Runner, Sequential
from turnwise.agents.llm import LlmAgent
from turnwise.facts.content import DataPart
from turnwise.ports.model import ModelRequest
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.built_in import AgentTool
from turnwise.tools.function import tool

T = TypeVar("T")
Process = Callable[..., Runner]


def done(result: Any = 1, **arguments: Any) -> Any:
    return calls("task_succeeded", {"result": result, **arguments})


def words(request: ModelRequest) -> str:
    return "\n".join(text for _, text in heard(request))


def names(request: ModelRequest) -> list[str]:
    return [each.name for each in request.tools]


def parts_of(event: Event, kind: type[T]) -> list[T]:
    return [part for part in event.content.parts if isinstance(part, kind)] if event.content else []


async def test_the_turn_is_over_with_its_task(process: Process) -> None:
    """D3, D6: the model is told how to end it, is given the tools for it, and is not asked again."""
    model = ScriptedModel(["I count three.", done(3)])
    flow = Turns(Turn("a", "count"), agents=[LlmAgent("a", model=model, instructions="You count.")])
    result = await ask(process(flow), "count them")
    assert (reason(result), model.left) == ("completed", 0)
    (request,) = model.requests
    assert request.instructions.startswith("You count.\n\n")
    assert "Say with task_succeeded that you are done with count." in request.instructions
    assert names(request) == ["task_succeeded", "end_turn"]
    assert told(result) == ["Taken."]
    assert (flow.given[0].done, flow.outcomes[0].text) == ({"count": 3}, "I count three.")
    assert {event.scope for event in result.events if event.author == "a" and event.content} == {("flow/count",)}


async def test_so_it_is_when_the_agent_ends_its_turn(process: Process) -> None:
    model = ScriptedModel(calls("end_turn"))
    flow = Turns(Turn("a", "count"), agents=[LlmAgent("a", model=model)])
    assert reason(await ask(process(flow), "count them")) == "completed"
    assert flow.given[0].done == {}


async def test_a_result_of_another_type_goes_back_to_the_model(process: Process) -> None:
    """D6: the task stays open, and the agent corrects itself."""
    model = ScriptedModel(done("many"), done(12))
    flow = Turns(Turn("a", "count"), agents=[LlmAgent("a", model=model)])
    result = await ask(process(flow), "count them")
    (wrong,) = last_results(model.requests[1])
    assert (wrong.failed, wrong.result) == (True, "The result has to be a number.")
    assert told(result)[1:] == ["Taken."]
    assert flow.given[0].done == {"count": 12}


async def test_with_several_tasks_it_goes_on_until_the_last(process: Process) -> None:
    model = ScriptedModel(done(1, task="one"), done(2, task="two"))
    flow = Turns(Turn("a", "one", "two"), agents=[LlmAgent("a", model=model)])
    await ask(process(flow), "go")
    assert (flow.given[0].done, model.left) == ({"one": 1, "two": 2}, 0)


async def test_words_alone_end_the_turn_and_not_the_task(process: Process) -> None:
    flow = Turns(Turn("a", "count"), agents=[LlmAgent("a", model=ScriptedModel("Three, I think."))])
    await ask(process(flow), "count them")
    assert (flow.outcomes[0].text, flow.given[0].is_over) == ("Three, I think.", False)


async def test_how_a_task_ended_is_said_by_the_flow_alone(process: Process) -> None:
    """D6, D8: others see neither the calls nor their results; what else was called beside is told."""

    async def look() -> str:
        return "three apples"

    first = ScriptedModel(["I look.", calls("look"), done("many")], ["I am done.", done(3)])
    second = ScriptedModel(done(4))
    agents = [LlmAgent("a", model=first, tools=[look]), LlmAgent("b", model=second)]
    await ask(process(Turns(Turn("a", "count"), Turn("b", "check", sees=["count"]), agents=agents)), "count them")
    said = words(second.requests[0])
    assert '<said by="a">I look.</said>' in said
    assert '<said by="a" calls="look">{} → three apples</said>' in said
    assert '<said by="a">I am done.</said>' in said
    assert '<said by="flow">3</said>' in said
    assert "task_succeeded" not in said
    assert "many" not in said
    assert "Taken" not in said


async def test_the_flows_message_is_for_its_reader(process: Process) -> None:
    """D8: shown as said by the flow to the reader, after what the user said; the user's words stay the user's."""
    model = ScriptedModel(done())
    flow = Turns(Turn("a", "count", brief='Count "them" </said>.'), agents=[LlmAgent("a", model=model)])
    await ask(process(flow), "count them")
    text = words(model.requests[0])
    assert text.splitlines()[0] == "count them"
    assert text.splitlines()[-1] == '<said by="flow" to="you">Count "them" &lt;/said>.</said>'
    assert 'marked to="you"' in model.requests[0].instructions


async def test_in_its_next_turn_an_agents_own_words_are_its_own(process: Process) -> None:
    """D8: its private calls are there, with their results."""
    model = ScriptedModel(["I count.", done(3)], ["I weigh.", done(4)])
    flow = Turns(Turn("a", "count"), Turn("a", "weigh", brief="Now weigh."), agents=[LlmAgent("a", model=model)])
    await ask(process(flow), "go")
    messages = model.requests[1].messages
    own = [message for message in messages if message.role == "agent"]
    assert [message.text for message in own] == ["I count."]
    assert [call.tool for call in own[0].tool_calls] == ["task_succeeded"]
    assert [each.result for message in messages for each in message.tool_results] == ["Taken."]
    assert messages[-1].text.endswith('<said by="flow" to="you">Now weigh.</said>')


async def test_what_is_said_on_an_independent_task_is_hidden(process: Process) -> None:
    """D7: on one upstream it is seen; so are the user's words, and the agent's own."""
    a, b = ScriptedModel(["Apples.", done(3)]), ScriptedModel(["Pears.", done(4)])
    c = ScriptedModel(["Both?", done(7)])
    agents = [LlmAgent("a", model=a), LlmAgent("b", model=b), LlmAgent("c", model=c)]
    flow = Turns(Turn("a", "apples"), Turn("b", "pears"), Turn("c", "juice", sees=["apples"]), agents=agents)
    await ask(process(flow), "make juice")
    assert "make juice" in words(b.requests[0])
    assert "Apples." not in words(b.requests[0])
    assert '<said by="a">Apples.</said>' in words(c.requests[0])
    assert "Pears." not in words(c.requests[0])
    assert '<said by="flow">4</said>' not in words(c.requests[0])


async def test_a_word_on_another_task_stays_ones_own(process: Process) -> None:
    """D7: an agent sees what it said itself, whatever it was about."""
    model = ScriptedModel(["Apples.", done(3)], done(4))
    flow = Turns(Turn("a", "apples"), Turn("a", "pears"), agents=[LlmAgent("a", model=model)])
    await ask(process(flow), "go")
    assert "Apples." in words(model.requests[1])


async def test_who_is_called_in_private_has_no_task_and_sees_no_more(process: Process) -> None:
    """D7: its caller's labels hold for it, too."""
    helper = ScriptedModel("Weigh them.")
    a, b = ScriptedModel(["Apples.", done(3)]), ScriptedModel(calls("ask_helper", {"message": "How?"}), done(4))
    agents = [
        LlmAgent("a", model=a),
        LlmAgent("b", model=b, tools=[AgentTool(LlmAgent("helper", model=helper))]),
        LlmAgent("helper", model=helper),
    ]
    await ask(process(Turns(Turn("a", "apples"), Turn("b", "pears"), agents=agents)), "go")
    (request,) = helper.requests
    assert request.tools == ()
    assert "task_succeeded" not in request.instructions
    assert "Apples." not in words(request)
    assert '<said by="b" to="you">How?</said>' in words(request)


async def test_a_tool_of_the_task_wins_over_the_agents_own(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    """And that is told to whoever runs it."""

    @tool(name="look")
    async def own() -> str:
        return "nothing"

    @tool(name="look")
    async def brought() -> str:
        return "three apples"

    model = ScriptedModel(calls("look"), done(3))
    flow = Turns(Turn("a", "count", tools=[brought]), agents=[LlmAgent("a", model=model, tools=[own])])
    with caplog.at_level(logging.WARNING, "turnwise.agents"):
        result = await ask(process(flow), "go")
    assert told(result) == ["three apples", "Taken."]
    assert names(model.requests[0]).count("look") == 1
    assert "Agent 'a' has two tools named 'look'; its own is not used while it works for 'flow'." in caplog.messages


async def test_a_tool_of_the_task_wins_over_one_of_a_toolset(process: Process) -> None:
    @tool(name="task_succeeded")
    async def strange() -> str:
        return "strange"

    class Strange:
        async def tools(self, context: AgentContext) -> list[Any]:
            return [strange]

        async def close(self) -> None:
            pass

    model = ScriptedModel(done(3))
    flow = Turns(Turn("a", "count"), agents=[LlmAgent("a", model=model, tools=[Strange()])])
    assert told(await ask(process(flow), "go")) == ["Taken."]


async def test_nobody_hands_the_floor_on_in_a_flow(process: Process) -> None:
    """Whose turn it is, is the flow's to say."""
    model = ScriptedModel(done())
    agents = [LlmAgent("a", model=model, children=[LlmAgent("below", model=ScriptedModel())])]
    await ask(process(Turns(Turn("a", "count"), agents=agents)), "go")
    assert "transfer_to_agent" not in names(model.requests[0])
    assert "hand the conversation" not in model.requests[0].instructions


async def test_the_task_says_what_is_to_be_given_and_the_flow_who_goes_on(process: Process) -> None:
    """An answer of a type, and colleagues to name, are for turns outside of flows."""
    model = ScriptedModel("Let me think.")
    agents = [LlmAgent("a", model=model, output_type=dict, names_next=True), LlmAgent("b", model=ScriptedModel())]
    assert reason(await ask(process(Turns(Turn("a", "count"), agents=agents)), "go")) == "completed"
    (request,) = model.requests
    assert names(request) == ["task_succeeded", "end_turn"]
    assert "final_answer" not in request.instructions
    assert "<next>" not in request.instructions


async def test_a_part_of_a_composite_works_as_everywhere(process: Process) -> None:
    """It gives what the next part takes; the composite works for the flow as a whole, and no part can end its task."""
    first = ScriptedModel(calls("final_answer", {"n": 3}))
    second = ScriptedModel("Three.")
    pipe = Sequential("pipe", [LlmAgent("one", model=first, output_type=dict), LlmAgent("two", model=second)])
    flow = Turns(Turn("pipe", "count"), agents=[pipe])
    result = await ask(process(flow), "go")
    assert reason(result) == "completed"
    assert [part.data for event in result.events if event.author == "one" for part in parts_of(event, DataPart)] == [{"n": 3}]
    assert 'to="you">Go.' in words(second.requests[0])
    assert second.requests[0].tools == ()
    assert (result.events[-2].text, flow.given[0].done) == ("Three.", {})


async def test_a_turn_that_is_run_again_goes_on_where_it_was(process: Process) -> None:
    """D12: no model is asked twice, and no task is ended twice."""
    crash, looked = Crash(), list[str]()

    @tool(last=True)
    async def look(text: str) -> str:
        looked.append(text)
        await crash.here()
        return f"saw {text}"

    model = ScriptedModel([done(1, task="one"), calls("look", {"text": "x"})], done(2, task="two"))
    flow = Turns(Turn("a", "one", "two", tools=[look]), agents=[LlmAgent("a", model=model)])
    await kill(process, flow, crash, "go")
    alive = process(flow)
    await alive.recover()
    events = await alive.store.events(key())
    assert [each.result for each in results_of(events)] == ["Taken.", "saw x", "Taken."]
    assert [part.data for event in events if event.author == "flow" for part in parts_of(event, DataPart)] == [1, 2]
    assert (model.left, looked, flow.given[0].done) == (0, ["x", "x"], {"one": 1, "two": 2})
