"""Over real sockets: conversations of responses, by previous_response_id, by conversation, and by repeating what was said."""

import asyncio
from collections.abc import Callable
from typing import Any

import openai
import pytest
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider
from responses_play import WEATHER, calls_in, opened, output, parrot, remembering, texts_of
from runner_play import Gate, soon

from turnwise import LlmAgent, Runner
from turnwise.testing.models import FunctionModel, ScriptedModel, calls

MakeRunner = Callable[..., Runner]


async def test_each_response_goes_on_from_the_one_before(make_runner: MakeRunner) -> None:
    runner = make_runner(remembering())
    async with opened(runner) as (client, _):
        last = await client.responses.create(model="turnwise", input="one")
        for text in ("two", "three"):
            last = await client.responses.create(model="turnwise", input=text, previous_response_id=last.id)
        assert last.output_text == "one | two | three"
        assert len((await runner.store.list(runner.app)).items) == 1


async def test_an_older_response_is_gone_on_from_in_a_session_of_its_own(make_runner: MakeRunner) -> None:
    """Behaviour A44."""
    runner = make_runner(remembering())
    async with opened(runner) as (client, _):
        first = await client.responses.create(model="turnwise", input="one")
        second = await client.responses.create(model="turnwise", input="two", previous_response_id=first.id)
        other = await client.responses.create(model="turnwise", input="2", previous_response_id=first.id)
        assert (second.output_text, other.output_text) == ("one | two", "one | 2")
        for end, before in ((second, "one | two"), (other, "one | 2")):
            third = await client.responses.create(model="turnwise", input="three", previous_response_id=end.id)
            assert third.output_text == f"{before} | three"
        assert len((await runner.store.list(runner.app)).items) == 2


async def test_those_that_go_on_at_once_do_not_hear_each_other(make_runner: MakeRunner) -> None:
    async with opened(make_runner(remembering())) as (client, _):
        first = await client.responses.create(model="turnwise", input="one")

        async def more(text: str) -> str:
            made = await client.responses.create(model="turnwise", input=text, previous_response_id=first.id)
            return str(made.output_text)

        assert await asyncio.gather(*map(more, "abcd")) == ["one | a", "one | b", "one | c", "one | d"]


async def test_who_goes_on_from_a_running_response_waits_for_it(make_runner: MakeRunner) -> None:
    gate = Gate()
    async with opened(make_runner(gate.agent)) as (client, _):
        first = await client.responses.create(model="turnwise", input="one", background=True)
        await soon(gate.began.wait())
        following = asyncio.create_task(
            client.responses.create(model="turnwise", input="two", previous_response_id=first.id, background=True)
        )
        gate.go.set()
        second = await following
        assert second.created_at >= first.created_at
        assert (await client.responses.retrieve(first.id)).output_text == "answer to one"


async def test_the_same_request_is_answered_once(make_runner: MakeRunner) -> None:
    runner = make_runner(remembering())
    async with opened(runner) as (client, _):

        async def twice(text: str, **options: Any) -> Any:
            options["extra_headers"] = {"Idempotency-Key": f"{text}{options}"}
            first, second = [await client.responses.create(model="turnwise", input=text, **options) for _ in range(2)]
            assert first == second == await client.responses.retrieve(first.id)
            return first

        first = await twice("one")
        second = await twice("two", previous_response_id=first.id)
        other = await twice("2", previous_response_id=first.id)
        assert (second.output_text, other.output_text) == ("one | two", "one | 2")
        assert (await twice("three", previous_response_id=second.id)).output_text == "one | two | three"
        history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
        keyed = {"Idempotency-Key": "h"}
        made = [await client.responses.create(model="turnwise", input=history, extra_headers=keyed) for _ in range(2)]
        assert made[0] == made[1]
        assert len((await runner.store.list(runner.app)).items) == 3


async def test_a_key_is_that_of_one_request(make_runner: MakeRunner) -> None:
    """Another request is never answered with what was said to the first."""
    key = {"Idempotency-Key": "k"}
    async with opened(make_runner(remembering())) as (client, _):
        first = await client.responses.create(model="turnwise", input="one", extra_headers=key)
        other = await client.responses.create(model="turnwise", input="two", extra_headers=key)
        after = await client.responses.create(model="turnwise", input="three", previous_response_id=first.id, extra_headers=key)
        assert [each.output_text for each in (first, other, after)] == ["one", "two", "one | three"]


async def test_nothing_comes_between_a_question_and_its_answer(make_runner: MakeRunner) -> None:
    script = ScriptedModel(calls("weather"), "Rain.")
    async with opened(make_runner(LlmAgent("desk", model=script))) as (client, _):
        asked = await client.responses.create(model="turnwise", input="weather?", tools=[WEATHER])
        rain = [output(calls_in(asked)[0], "rain")]
        await client.responses.create(model="turnwise", previous_response_id=asked.id, input=rain)
        with pytest.raises(openai.ConflictError) as refused:
            await client.responses.create(model="turnwise", previous_response_id=asked.id, input="never mind")
        assert "answered already" in str(refused.value)


async def test_a_conversation_is_a_session(make_runner: MakeRunner) -> None:
    async with opened(make_runner(remembering())) as (client, gateway):
        await gateway.send_message("before", "s-1")
        made = await client.responses.create(model="turnwise", input="one", conversation="s-1")
        assert (made.output_text, made.conversation and made.conversation.id) == ("before | one", "s-1")
        again = await client.responses.create(model="turnwise", input="two", conversation={"id": "s-1"})
        assert again.output_text == "before | one | two"
        assert (await client.responses.retrieve(made.id)).conversation == made.conversation
        with pytest.raises(openai.NotFoundError) as missing:
            await client.responses.create(model="turnwise", input="one", conversation="s-2")
        assert (missing.value.code, missing.value.param) == ("conversation_not_found", "conversation")
        with pytest.raises(openai.UnprocessableEntityError) as both:
            await client.responses.create(model="turnwise", input="one", conversation="s-1", previous_response_id=made.id)
        assert both.value.param == "previous_response_id"


async def test_who_repeats_items_with_their_ids_goes_on_behind_them(make_runner: MakeRunner) -> None:
    runner = make_runner(remembering())
    async with opened(runner) as (client, _):
        said: list[Any] = []
        for text in ("one", "two", "three"):
            said.append({"role": "user", "content": text})
            last = await client.responses.create(model="turnwise", input=said)
            said += [item.to_dict() for item in last.output]
        assert last.output_text == "one | two | three"
        assert len((await runner.store.list(runner.app)).items) == 1


async def test_who_repeats_texts_alone_is_found_by_them(make_runner: MakeRunner) -> None:
    runner = make_runner(remembering())
    async with opened(runner) as (client, _):
        said: list[Any] = []
        for text in ("one", "two", "three", "four"):
            said.append({"role": "user", "content": text})
            last = await client.responses.create(model="turnwise", input=said)
            said.append({"role": "assistant", "content": last.output_text})
        assert last.output_text == "one | two | three | four"
        # The first answer stood alone; what came then was put on record once.
        assert len((await runner.store.list(runner.app)).items) == 2
        assert await client.responses.retrieve(last.id) == last


def weather_model() -> FunctionModel:
    """Calls the caller's tool once for each question, then tells what it gave."""

    def told(request: Any) -> Any:
        results = request.messages[-1].tool_results
        return (
            f"It is {results[0].result}." if results else calls("weather", {"city": request.messages[-1].text.splitlines()[-1]})
        )

    return FunctionModel(told)


@pytest.mark.parametrize("chained", [False, True])
async def test_pydantic_ai_is_served(make_runner: MakeRunner, *, chained: bool) -> None:
    async with opened(make_runner(LlmAgent("desk", model=weather_model()))) as (client, _):
        settings = OpenAIResponsesModelSettings(openai_previous_response_id="auto") if chained else None
        model = OpenAIResponsesModel("turnwise", provider=OpenAIProvider(openai_client=client), settings=settings)
        asking: Agent[None, str] = Agent(model, instructions="Be brief.")

        @asking.tool_plain
        def weather(city: str) -> str:
            """Tells the weather."""
            return f"rainy in {city}"

        first = await asking.run("Oslo")
        assert first.output == "It is rainy in Oslo."
        second = await asking.run("Rome", message_history=first.all_messages())
        assert second.output == "It is rainy in Rome."
        async with asking.run_stream("Bonn", message_history=second.all_messages()) as stream:
            assert await stream.get_output() == "It is rainy in Bonn."


async def test_a_conversation_is_compacted_into_one_item(make_runner: MakeRunner) -> None:
    async with opened(make_runner(remembering())) as (client, _):
        first = await client.responses.create(model="turnwise", input="one")
        compacted = await client.responses.compact(model="turnwise", previous_response_id=first.id)
        items: list[Any] = [item.to_dict() for item in compacted.output]
        assert [item["type"] for item in items] == ["compaction"]
        second = await client.responses.create(model="turnwise", input=[*items, {"role": "user", "content": "two"}])
        assert second.output_text == "one | two"

        told: list[Any] = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        compacted = await client.responses.compact(model="turnwise", input=told)
        again = await client.responses.compact(model="turnwise", input=[item.to_dict() for item in compacted.output])
        items = [item.to_dict() for item in again.output]
        other = await client.responses.create(model="turnwise", input=[*items, {"role": "user", "content": "c"}])
        assert other.output_text == "a | c"
        with pytest.raises(openai.NotFoundError) as missing:
            await client.responses.compact(model="turnwise", previous_response_id="resp_x")
        assert missing.value.param == "previous_response_id"


async def test_tokens_are_estimated(make_runner: MakeRunner) -> None:
    async with opened(make_runner(parrot)) as (client, _):
        count = client.responses.input_tokens.count
        short, long = await count(input="hello"), await count(input="hello " * 100)
        assert 0 < short.input_tokens < long.input_tokens < 500
        first = await client.responses.create(model="turnwise", input="hello " * 100)
        after = await count(input="hello", previous_response_id=first.id)
        assert after.input_tokens > long.input_tokens
        with_tools = await count(input="hello", tools=[WEATHER])
        assert with_tools.input_tokens > short.input_tokens


async def test_the_newest_response_can_be_taken_back(make_runner: MakeRunner) -> None:
    """Behaviour A44."""
    runner = make_runner(remembering())
    async with opened(runner) as (client, _):
        first = await client.responses.create(model="turnwise", input="one")
        second = await client.responses.create(model="turnwise", input="two", previous_response_id=first.id)
        with pytest.raises(openai.ConflictError):
            await client.responses.delete(first.id)
        await client.responses.delete(second.id)
        for gone in (client.responses.retrieve(second.id), client.responses.delete(second.id)):
            with pytest.raises(openai.NotFoundError):
                await gone
        third = await client.responses.create(model="turnwise", input="three", previous_response_id=first.id)
        assert third.output_text == "one | three"
        await client.responses.delete(third.id)
        await client.responses.delete(first.id)
        # Nothing is kept of a session whose only answer is deleted, but what was hidden before is its own.
        lone = await client.responses.create(model="turnwise", input="alone")
        before = len((await runner.store.list(runner.app)).items)
        await client.responses.delete(lone.id)
        assert len((await runner.store.list(runner.app)).items) == before - 1


async def test_the_items_of_an_input_come_in_pages(make_runner: MakeRunner) -> None:
    script = ScriptedModel([calls("weather"), calls("weather"), calls("weather")], "Rain.")
    async with opened(make_runner(LlmAgent("desk", model=script))) as (client, _):
        asked = await client.responses.create(model="turnwise", input="weather?", tools=[WEATHER], instructions="Be brief.")
        items = await client.responses.input_items.list(asked.id)
        assert [item.to_dict()["content"] for item in items.data] == [[{"type": "input_text", "text": "weather?"}]]
        assert (await client.responses.retrieve(asked.id)).instructions == "Be brief."
        outputs = [output(call, '{"rain": true}') for call in calls_in(asked)]
        made = await client.responses.create(
            model="turnwise", previous_response_id=asked.id, input=[*outputs, {"role": "user", "content": "so?"}]
        )
        assert texts_of(made) == ["Rain."]
        page = await client.responses.input_items.list(made.id, limit=3, order="asc")
        assert [item.to_dict().get("call_id") for item in page.data] == [each["call_id"] for each in outputs]
        whole = [item async for item in page]
        assert len(whole) == 4
        backwards = [item async for item in client.responses.input_items.list(made.id, limit=1)]
        assert backwards == whole[::-1]
        with pytest.raises(openai.UnprocessableEntityError):
            await client.responses.input_items.list(made.id, after="msg_nothing")
