"""Tools of a client's own, calls that wait for a person or a late result, and a second client."""

import json
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion
from openai_play import assistant, chatting, joined, said, session_of, user

from turnwise import AgentContext, LlmAgent, agent
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.function import tool

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather at a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    },
}


def result(call_id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def repeated(answer: ChatCompletion) -> dict[str, Any]:
    """The answer's message as a client repeats it."""
    return answer.choices[0].message.model_dump()


def called(answer: ChatCompletion) -> list[tuple[str, str, Any]]:
    """The calls of an answer: id, name, arguments."""
    found = []
    for call in answer.choices[0].message.tool_calls or ():
        assert call.type == "function"
        found.append((call.id, call.function.name, json.loads(call.function.arguments)))
    return found


async def test_a_round_trip_of_two_calls() -> None:
    model = ScriptedModel(
        ["Let me see.", calls("weather", {"place": "Oslo"}), calls("weather", {"place": "Rome"})], "Both are fine."
    )
    async with chatting(LlmAgent("root", model=model)) as chat:
        asked = await chat.ask("weather?", tools=[WEATHER])
        assert asked.choices[0].finish_reason == "tool_calls"
        assert said(asked) == "Let me see."
        (oslo, name, place), (rome, _, _) = called(asked)
        assert (name, place) == ("weather", {"place": "Oslo"})
        results = [result(oslo, '{"sky": "clear"}'), result(rome, [{"type": "text", "text": "rain"}])]
        answer = await chat.ask("weather?", repeated(asked), *results, tools=[WEATHER])
        assert (said(answer), answer.choices[0].finish_reason) == ("Both are fine.", "stop")
        assert [each.result for each in model.requests[1].messages[-1].tool_results] == [{"sky": "clear"}, "rain"]
        assert session_of(answer) == session_of(asked)
        # The same results again are the same message.
        again = await chat.ask("weather?", repeated(asked), *results, tools=[WEATHER])
        assert again.id == answer.id
        assert len(model.requests) == 2


async def test_calls_in_a_stream() -> None:
    model = ScriptedModel([calls("weather", {"place": "Oslo"}), calls("weather", {"place": "Rome"})], "Fine.")
    async with chatting(LlmAgent("root", model=model)) as chat:
        messages: Any = [user("weather?")]
        tools: Any = [WEATHER]
        async with chat.client.chat.completions.stream(model="turnwise", messages=messages, tools=tools) as stream:
            asked = await stream.get_final_completion()
        assert asked.choices[0].finish_reason == "tool_calls"
        assert [place for _, _, place in called(asked)] == [{"place": "Oslo"}, {"place": "Rome"}]
        results = [result(id_, "fine") for id_, _, _ in called(asked)]
        assert joined(await chat.pieces("weather?", repeated(asked), *results, tools=tools)) == "Fine."


async def test_results_one_after_the_other() -> None:
    model = ScriptedModel([calls("weather", {"place": "Oslo"}), calls("weather", {"place": "Rome"})], "Fine.")
    async with chatting(LlmAgent("root", model=model)) as chat:
        asked = await chat.ask("weather?", tools=[WEATHER])
        (oslo, *_), (rome, *_) = called(asked)
        half = await chat.ask("weather?", repeated(asked), result(oslo, "fine"), tools=[WEATHER])
        assert half.choices[0].finish_reason == "tool_calls"
        assert [id_ for id_, _, _ in called(half)] == [rome]
        answer = await chat.ask("weather?", repeated(asked), result(oslo, "fine"), repeated(half), result(rome, "fine"))
        assert said(answer) == "Fine."


async def test_none_offers_no_tools() -> None:
    model = ScriptedModel("I cannot know.")
    async with chatting(LlmAgent("root", model=model)) as chat:
        await chat.ask("weather?", tools=[WEATHER], tool_choice="none")
        assert model.requests[0].tools == ()


async def test_a_name_that_is_kept_for_agents_is_refused() -> None:
    async with chatting(LlmAgent("root", model=ScriptedModel())) as chat:
        with pytest.raises(openai.UnprocessableEntityError) as refused:
            await chat.ask("hello", tools=[{"type": "function", "function": {"name": "transfer_to_agent"}}])
        assert refused.value.code == "message"


async def test_a_persons_leave_is_asked_for_by_a_call() -> None:
    """A42."""
    paid: list[int] = []

    @tool(confirm=True)
    async def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    model = ScriptedModel(calls("pay", {"amount": 5}), "Done.")
    async with chatting(LlmAgent("root", model=model, tools=[pay])) as chat:
        asked = await chat.ask("pay 5")
        assert said(asked) == "May I call pay with amount = 5?"
        ((id_, name, arguments),) = called(asked)
        assert (name, arguments["tool"], arguments["arguments"]) == ("confirm", "pay", {"amount": 5})
        answer = await chat.ask("pay 5", repeated(asked), result(id_, '{"approved": true}'))
        assert (said(answer), paid) == ("Done.", [5])


async def test_a_late_result_is_waited_for_by_a_call() -> None:
    """A42."""

    @agent
    async def clerk(message: str, context: AgentContext) -> str:
        found = await context.ask("Looking it up.", tool="look_up", arguments={"number": 7})
        return f"It is {found.tool_results[0].result}."

    async with chatting(clerk) as chat:
        asked = await chat.ask("where?")
        assert said(asked) == "Looking it up."
        ((id_, name, arguments),) = called(asked)
        assert (name, arguments) == ("look_up", {"number": 7})
        assert said(await chat.ask("where?", repeated(asked), result(id_, "here"))) == "It is here."


async def test_a_history_with_calls_from_elsewhere() -> None:
    model = ScriptedModel("Still clear.")
    call = {"id": "call_abc", "type": "function", "function": {"name": "weather", "arguments": '{"place": "Oslo"}'}}
    async with chatting(LlmAgent("root", model=model)) as chat:
        history = [user("weather?"), assistant(None, tool_calls=[call]), result("call_abc", "clear"), assistant("Clear.")]
        assert said(await chat.ask(*history, "and now?", tools=[WEATHER])) == "Still clear."
        heard = model.requests[0].messages
        assert [message.text for message in heard if message.text] == ["weather?", "Clear.", "and now?"]
        assert [each.result for message in heard for each in message.tool_results] == ["clear"]


async def test_pydantic_ai_as_a_client() -> None:
    """Another client of the same protocol: plain, with a tool, streamed, and over several turns."""
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = ScriptedModel(calls("weather", {"place": "Oslo"}), "It is clear in Oslo.", "As I said: clear.", "Once more: clear.")
    async with chatting(LlmAgent("root", model=model)) as chat:
        provider = OpenAIProvider(openai_client=chat.client)
        asking = pydantic_ai.Agent(OpenAIChatModel("turnwise", provider=provider), instructions="Be short.")

        @asking.tool_plain  # type: ignore[untyped-decorator]
        def weather(place: str) -> str:
            return f"clear in {place}"

        one = await asking.run("weather in Oslo?")
        assert one.output == "It is clear in Oslo."
        two = await asking.run("sure?", message_history=one.all_messages())
        assert two.output == "As I said: clear."
        async with asking.run_stream("really?", message_history=two.all_messages()) as three:
            assert await three.get_output() == "Once more: clear."
        assert len(await chat.sessions()) == 1
