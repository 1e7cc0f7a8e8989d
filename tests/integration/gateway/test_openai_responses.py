"""Over real sockets, with the client as it is: responses made and looked up, and whose they are."""

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import openai
import pytest
from gateway_play import key_for, served
from openai.types.responses import Response
from responses_play import (
    WEATHER,
    bearer,
    calls_in,
    client_of,
    opened,
    output,
    parrot,
    read,
    remembering,
    sync_client_of,
    texts_of,
)

from turnwise import Content, LlmAgent, Runner, Team, agent, tool
from turnwise.facts.content import BlobPart
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.facts.limits import Limits, RunConfig
from turnwise.selection.conversational import Conversational
from turnwise.testing.models import ScriptedModel, calls

MakeRunner = Callable[..., Runner]
LOCKED = GatewayConfig(auth=AuthConfig())


async def test_a_response_has_every_field_of_the_clients(make_runner: MakeRunner) -> None:
    async with opened(make_runner(parrot)) as (client, _):
        raw = await client.responses.with_raw_response.create(model="turnwise", input="hello there", metadata={"a": "b"})
        wire = raw.http_response.json()
        assert [name for name, field in Response.model_fields.items() if (field.alias or name) not in wire] == []
        made = Response.model_validate(wire)
        assert (made.output_text, made.status, made.model, made.metadata) == (
            "You said hello there.",
            "completed",
            "turnwise",
            {"a": "b"},
        )
        assert made.usage is not None
        assert made.usage.total_tokens == 0
        assert made.completed_at is not None
        assert made.completed_at >= made.created_at
        assert (await client.responses.retrieve(made.id)).to_dict() == raw.parse().to_dict()


async def test_tools_of_the_caller_make_a_round_trip(make_runner: MakeRunner) -> None:
    script = ScriptedModel([calls("weather", {"city": "Oslo"}), calls("weather", {"city": "Rome"})], "Rain, and sun.")
    runner = make_runner(LlmAgent("desk", model=script))
    async with opened(runner) as (client, _):
        first = await client.responses.create(model="turnwise", input="Oslo and Rome?", tools=[WEATHER])
        oslo, rome = calls_in(first)
        assert [(call.name, call.arguments) for call in (oslo, rome)] == [
            ("weather", '{"city":"Oslo"}'),
            ("weather", '{"city":"Rome"}'),
        ]
        assert (first.status, first.tools[0].name) == ("completed", "weather")
        half = await client.responses.create(
            model="turnwise", previous_response_id=first.id, input=[output(oslo, "rain")], tools=[WEATHER]
        )
        assert [call.call_id for call in calls_in(half)] == [rome.call_id]
        last = await client.responses.create(model="turnwise", previous_response_id=half.id, input=[output(rome, "sun")])
        assert last.output_text == "Rain, and sun."
        assert len({first.id, half.id, last.id}) == 3
        for response in (first, half, last):
            assert await client.responses.retrieve(response.id) == response
        again = await read(await client.responses.retrieve(half.id, stream=True))
        assert again[-1].response == half
    # One invocation answered all three: the model was asked twice.
    assert len(script.requests) == 2


async def test_a_person_is_asked_by_a_call(make_runner: MakeRunner) -> None:
    done: list[str] = []

    @tool(confirm=True)
    def refund(order: str) -> str:
        """Pays back."""
        done.append(order)
        return "paid"

    script = ScriptedModel(calls("refund", {"order": "7"}), "It is paid.")
    async with opened(make_runner(LlmAgent("desk", model=script, tools=[refund]))) as (client, _):
        asked = await client.responses.create(model="turnwise", input="my money!")
        (question,) = calls_in(asked)
        assert (question.name, texts_of(asked)) == ("confirm", ['May I call refund with order = "7"?'])
        assert done == []
        last = await client.responses.create(
            model="turnwise", previous_response_id=asked.id, input=[output(question, '{"approved": true}')]
        )
        assert (last.output_text, done) == ("It is paid.", ["7"])


async def test_a_question_to_the_user_is_answered_by_the_next_request(make_runner: MakeRunner) -> None:
    @agent
    async def clerk(message: str, context: Any) -> str:
        return f"It is {(await context.ask('Which order?')).text}"

    async with opened(make_runner(clerk)) as (client, _):
        asked = await client.responses.create(model="turnwise", input="my order")
        assert (asked.output_text, asked.status) == ("Which order?", "completed")
        last = await client.responses.create(model="turnwise", previous_response_id=asked.id, input="O-7")
        assert last.output_text == "It is O-7"
        assert (await client.responses.retrieve(asked.id)).output_text == "Which order?"


async def test_several_agents_are_several_items(make_runner: MakeRunner) -> None:
    writer = LlmAgent("writer", model=ScriptedModel("A draft.<next>@critic</next>"), names_next=True)
    critic = LlmAgent("critic", model=ScriptedModel("Well done."), names_next=True)
    async with opened(make_runner(Team("desk", [writer, critic], selector=Conversational(lead="writer")))) as (client, _):
        stream = await client.responses.create(model="turnwise", input="write", stream=True)
        events = await read(stream)
        made = events[-1].response
        assert texts_of(made) == ["A draft.", "Well done."]
        assert [item.agent for item in made.output] == ["writer", "critic"]
        added = [event for event in events if event.type == "response.output_item.added"]
        assert [event.output_index for event in added] == [0, 1]


async def test_what_is_no_longer_waited_for_can_be_cancelled(make_runner: MakeRunner) -> None:
    script = ScriptedModel(calls("weather"))
    async with opened(make_runner(LlmAgent("desk", model=script))) as (client, _):
        first = await client.responses.create(model="turnwise", input="weather?", tools=[WEATHER])
        cancelled = await client.responses.cancel(first.id)
        assert (cancelled.status, [item.id for item in cancelled.output]) == ("cancelled", [item.id for item in first.output])
        with pytest.raises(openai.ConflictError) as refused:
            await client.responses.create(
                model="turnwise", previous_response_id=first.id, input=[output(calls_in(first)[0], "late")]
            )
        assert refused.value.code == "message.unknown_tool_call"


async def test_files_come_as_data_urls(make_runner: MakeRunner) -> None:
    got: list[Content] = []

    @agent
    def looker(message: Content) -> str:
        got.append(message)
        return "seen"

    url = "data:image/png;base64," + base64.b64encode(b"pixels").decode()
    parts: Any = [
        {"type": "input_text", "text": "what is this?"},
        {"type": "input_image", "image_url": url, "detail": "auto"},
        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGk="},
        {"type": "input_audio", "input_audio": {"data": "c291bmQ=", "format": "wav"}},
    ]
    async with opened(make_runner(looker)) as (client, _):
        made = await client.responses.create(model="turnwise", input=[{"role": "user", "content": parts}])
        blobs = [(part.mime_type, part.data, part.name) for part in got[0].parts if isinstance(part, BlobPart)]
        assert blobs == [
            ("image/png", b"pixels", None),
            ("text/plain", b"hi", "a.txt"),
            ("audio/wav", b"sound", None),
        ]
        (item,) = (await client.responses.input_items.list(made.id)).data
        assert item.to_dict()["content"][1]["image_url"] == url


async def test_an_agent_that_fails_says_so_to_whom_it_concerns(make_runner: MakeRunner) -> None:
    @agent
    async def broken(message: str, context: Any) -> None:
        async with context.stream() as answer:
            await answer.write("I was just about to ")
            raise ValueError("secret detail")

    runner = make_runner(broken)
    ann, keeper = await key_for(runner), await key_for(runner, user="kim", role="operator")
    async with served(runner, LOCKED) as gateway:
        async with client_of(gateway, bearer(ann)) as client:
            failed = await client.responses.create(model="turnwise", input="hi")
            assert (failed.status, failed.error and failed.error.message) == ("failed", "The agent failed.")
            stream = await client.responses.create(model="turnwise", input="hi", stream=True)
            events = await read(stream)
            assert events[-1].type == "response.failed"
            items = [event.item for event in events if event.type == "response.output_item.done"]
            assert [(item.status, item.content[0].text) for item in items] == [("incomplete", "I was just about to")]
        async with client_of(gateway, bearer(keeper)) as client:
            failed = await client.responses.create(model="turnwise", input="hi")
            assert failed.error
            assert "secret detail" in failed.error.message


async def test_limits_leave_a_response_incomplete(make_runner: MakeRunner) -> None:
    looking: Any = ["Still looking.", calls("look")]
    script = ScriptedModel(looking, looking, looking)

    @tool
    def look() -> str:
        """Looks."""
        return "nothing"

    desk = LlmAgent("desk", model=script, tools=[look])
    async with opened(make_runner(desk, config=RunConfig(limits=Limits(steps=2)))) as (client, _):
        made = await client.responses.create(model="turnwise", input="hi")
        assert made.incomplete_details is not None
        assert (made.status, made.incomplete_details.reason) == ("incomplete", "max_messages")
        assert texts_of(made) == ["Still looking.", "Still looking."]


async def test_nobody_comes_in_without_a_key_nor_to_what_is_anothers(make_runner: MakeRunner) -> None:
    runner = make_runner(parrot)
    ann, bob = await key_for(runner), await key_for(runner, user="bob")
    async with served(runner, LOCKED) as gateway:

        def refused() -> str:
            with sync_client_of(gateway, "wrong") as client, pytest.raises(openai.AuthenticationError) as error:
                client.responses.create(model="turnwise", input="hi")
            return str(error.value.code)

        assert await asyncio.to_thread(refused) == "invalid_api_key"
        async with client_of(gateway, bearer(ann)) as client:
            mine = await client.responses.create(model="turnwise", input="hi")
        async with client_of(gateway, bearer(bob)) as client:
            for missing in (mine.id, "resp_nothing"):
                for look in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
                    with pytest.raises(openai.NotFoundError) as error:
                        await look(missing)
                    body = error.value.body
                    assert isinstance(body, dict)
                    assert body["message"] == f"There is no response {missing!r}. Check the id."
                with pytest.raises(openai.NotFoundError) as error:
                    await client.responses.create(model="turnwise", input="hi", previous_response_id=missing)
                assert error.value.code == "previous_response_not_found"


async def test_a_service_acts_for_its_users(make_runner: MakeRunner) -> None:
    """A key that acts for users names one with each response that it begins; the ids tell whose it is from then on."""
    runner = make_runner(remembering())
    service, ann = await key_for(runner, acts_for_users=True), await key_for(runner)
    async with served(runner, LOCKED) as gateway:
        async with client_of(gateway, bearer(service)) as client:
            first = await client.responses.create(model="turnwise", input="I am Bob", user="bob")
            second = await client.responses.create(model="turnwise", input="and now?", previous_response_id=first.id)
            assert second.output_text == "I am Bob | and now?"
            assert await client.responses.retrieve(first.id) == first
        assert [info.key.user for info in (await runner.store.list(runner.app)).items] == ["bob"]
        async with client_of(gateway, bearer(ann)) as client:
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(first.id)
