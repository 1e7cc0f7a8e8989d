"""Open Responses (https://www.openresponses.org): what its public compliance suite asks, by our own models of it."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from gateway_play import Served, served
from open_responses_play import check_event, check_object
from responses_play import WEATHER, caller_of_tools, client_of, opened, parrot, remembering
from runner_play import soon
from websockets.asyncio.client import connect

from turnwise import Runner

MakeRunner = Callable[..., Runner]
LAST = {"response.completed", "response.failed", "response.incomplete", "error"}
PLACE = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}
ELSEWHERE = {"type": "function", "name": "weather", "parameters": PLACE}
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def post(gateway: Served, body: dict[str, Any], to: str = "responses") -> httpx.Response:
    answer = await gateway.post(f"/v1/{to}", json={"model": "turnwise", **body})
    if answer.is_success:
        check_object(answer.json())
    return answer


async def made(gateway: Served, **body: Any) -> dict[str, Any]:
    """A response, as it is now."""
    answer = await post(gateway, body)
    assert answer.status_code == 200, answer.text
    response: dict[str, Any] = answer.json()
    return response


async def turn(socket: Any, **body: Any) -> dict[str, Any]:
    """The last event of a response that is asked for on a web socket; all of them are checked."""
    await socket.send(json.dumps({"type": "response.create", "model": "turnwise", **body}))
    while True:
        event: dict[str, Any] = json.loads(await socket.recv())
        check_event(event)
        if event["type"] in LAST:
            return event


async def nothing_left(runner: Runner) -> None:
    """Returns when there is no session."""
    while (await runner.store.list(runner.app)).items:  # noqa: ASYNC110, the store has no event for it
        await asyncio.sleep(0.01)


def at(gateway: Served) -> str:
    return gateway.address.replace("http", "ws") + "/v1/responses"


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content, **more}


@pytest.mark.parametrize(
    "items",
    [
        [said("user", "Say hello.")],
        [said("system", "You are a pirate."), said("user", "Say hello.")],
        [said("user", "I am Alice."), said("assistant", "Hello Alice!"), said("user", "What is my name?")],
        [
            said("assistant", "I should look.", phase="commentary"),
            said("assistant", "Four.", phase="final_answer"),
            said("user", "Repeat it."),
        ],
        [said("user", [{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": PIXEL}])],
    ],
)
@pytest.mark.parametrize("store", [True, False, None])
async def test_an_input_is_answered(make_runner: MakeRunner, items: list[Any], store: bool | None) -> None:
    async with served(make_runner(parrot)) as gateway:
        response = await made(gateway, input=items, store=store)
        assert (response["status"], response["store"]) == ("completed", store is not False)
        assert response["output"]


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("tool", [WEATHER, ELSEWHERE], ids=["optional", "required"])
async def test_a_tool_is_called_and_its_output_taken(make_runner: MakeRunner, tool: Any, store: bool) -> None:
    async with served(make_runner(caller_of_tools())) as gateway:
        asked = await made(gateway, input="How is the weather?", tools=[tool], store=store)
        (call,) = asked["output"]
        assert (call["type"], call["name"]) == ("function_call", "weather")
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "Rain."}
        answered = await made(gateway, input=[said("user", "How is the weather?"), call, output], tools=[tool], store=store)
        assert answered["output"][0]["type"] == "message"
        await gateway.front.state.tasks.settled()
        left = (await gateway.front.runner.store.list(gateway.front.runner.app)).items
        assert len(left) == (1 if store else 0)


async def test_a_stream_is_as_specified(make_runner: MakeRunner) -> None:
    async with opened(make_runner(caller_of_tools())) as (client, _):
        for tools in ([], [WEATHER]):
            stream = await client.responses.create(model="turnwise", input="Count.", tools=tools, stream=True)
            events = [event.to_dict() async for event in stream]
            for event in events:
                check_event(event)
            assert events[-1]["type"] == "response.completed"


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_not_stored_cannot_be_had_again(make_runner: MakeRunner, stream: bool) -> None:
    """Neither the response nor its session nor its decision is there; what was stored before stays as it was."""
    runner = make_runner(remembering())
    async with served(runner) as gateway, client_of(gateway) as client:
        before = await made(gateway, input="one")
        body = {"model": "turnwise", "input": "two", "previous_response_id": before["id"], "store": False}
        if stream:
            events = [event async for event in await client.responses.create(**body, stream=True)]
            response = events[-1].response.to_dict()
        else:
            response = await made(gateway, **body)
        assert (response["store"], response["output"][0]["content"][0]["text"]) == (False, "one | two")
        await gateway.front.state.tasks.settled()
        id_ = response["id"]
        for method, path in (
            ("GET", id_),
            ("GET", f"{id_}?stream=true"),
            ("GET", f"{id_}/input_items"),
            ("POST", f"{id_}/cancel"),
            ("DELETE", id_),
        ):
            answer = await gateway.request(method, f"/v1/responses/{path}")
            assert answer.status_code == 404, (method, path, answer.text)
        refused = await post(gateway, {"input": "three", "previous_response_id": id_})
        assert refused.json()["error"]["code"] == "previous_response_not_found"
        (kept,) = (await runner.store.list(runner.app)).items
        assert response["turnwise"]["session_id"] != kept.key.id
        assert (await gateway.get(f"/v1/responses/{before['id']}")).json() == before
        after = await made(gateway, input="three", previous_response_id=before["id"])
        assert after["output"][0]["content"][0]["text"] == "one | three"


async def test_a_reader_who_leaves_leaves_nothing_behind(make_runner: MakeRunner) -> None:
    runner = make_runner(parrot)
    async with served(runner) as gateway:
        body = {"model": "turnwise", "input": "a longer story", "store": False, "stream": True}
        async with gateway.stream("POST", "/v1/responses", json=body) as answer:
            assert answer.status_code == 200

        await soon(nothing_left(runner))


async def test_items_of_a_response_that_was_not_stored_are_the_conversation(make_runner: MakeRunner) -> None:
    """A client that keeps all itself sends all again."""
    runner = make_runner(remembering())
    async with served(runner) as gateway:
        items: list[Any] = []
        for word in ("one", "two", "three"):
            items.append(said("user", word))
            response = await made(gateway, input=items, store=False)
            items += response["output"]
        assert response["output"][0]["content"][0]["text"] == "one | two | three"
        await gateway.front.state.tasks.settled()
        assert not (await runner.store.list(runner.app)).items


@pytest.mark.parametrize("more", [{"background": True}, {"conversation": "c"}])
async def test_what_needs_to_be_stored_says_so(make_runner: MakeRunner, more: dict[str, Any]) -> None:
    async with served(make_runner(parrot)) as gateway:
        answer = await post(gateway, {"input": "hi", "store": False, **more})
        assert (answer.status_code, answer.json()["error"]["param"]) == (422, "store")


async def test_compaction(make_runner: MakeRunner) -> None:
    async with served(make_runner(remembering())) as gateway:
        items = [said("user", "We launch on Tuesday."), said("assistant", "Understood.")]
        compacted = await post(gateway, {"input": items, "prompt_cache_key": "k"}, "responses/compact")
        assert [item["type"] for item in compacted.json()["output"]] == ["compaction"]
        without = await gateway.post("/v1/responses/compact", json={"input": items})
        assert (without.status_code, without.json()["error"]["param"]) == (422, "model")
        async with connect(at(gateway), proxy=None) as socket:
            new = [*compacted.json()["output"], said("user", "Go on.")]
            last = await turn(socket, input=new, store=False, tools=[])
            assert last["response"]["output"][0]["content"][0]["text"] == "We launch on Tuesday. | Go on."


async def test_a_connection_goes_on_from_what_is_not_stored(make_runner: MakeRunner) -> None:
    runner = make_runner(remembering())
    async with served(runner) as gateway:
        async with connect(at(gateway), proxy=None) as socket:
            first = (await turn(socket, input="one", store=False))["response"]
            again = (await turn(socket, input="alone", store=False))["response"]
            assert again["output"][0]["content"][0]["text"] == "alone"
            for word in ("two", "other"):  # the second time from an answer that was gone on from already
                second = (await turn(socket, input=word, store=False, previous_response_id=first["id"]))["response"]
                assert second["output"][0]["content"][0]["text"] == f"one | {word}"
        async with connect(at(gateway), proxy=None) as socket:
            missed = await turn(socket, input="three", store=False, previous_response_id=second["id"])
            assert missed["error"]["code"] == "previous_response_not_found"
            clean = await turn(socket, input="four", store=False)
            assert clean["response"]["output"][0]["content"][0]["text"] == "four"

        await soon(nothing_left(runner))


async def test_a_continuation_that_fails_takes_its_start_away(make_runner: MakeRunner) -> None:
    async with served(make_runner(remembering())) as gateway, connect(at(gateway), proxy=None) as socket:
        first = (await turn(socket, input="one", store=False))["response"]
        wrong = [{"type": "function_call_output", "call_id": "call_missing", "output": "No call was made."}]
        failed = await turn(socket, input=wrong, store=False, previous_response_id=first["id"])
        assert failed["type"] == "error"
        stale = await turn(socket, input="two", store=False, previous_response_id=first["id"])
        assert stale["error"]["code"] == "previous_response_not_found"


async def test_a_connection_keeps_the_newest(make_runner: MakeRunner) -> None:
    """The number of responses that it may go on from is bounded; the others are deleted at once."""
    runner = make_runner(parrot)
    async with served(runner) as gateway, connect(at(gateway), proxy=None) as socket:
        ids = [(await turn(socket, input="hi", store=False))["response"]["id"] for _ in range(34)]
        await gateway.front.state.tasks.settled()
        assert len((await runner.store.list(runner.app)).items) == 32
        for place, there in ((0, False), (33, True)):
            last = await turn(socket, input="on", store=False, previous_response_id=ids[place])
            assert (last["type"] == "response.completed") is there


async def test_another_connection_goes_on_from_nothing(make_runner: MakeRunner) -> None:
    async with (
        served(make_runner(parrot)) as gateway,
        connect(at(gateway), proxy=None) as mine,
        connect(at(gateway), proxy=None) as other,
    ):
        first = (await turn(mine, input="one", store=False))["response"]
        told = await asyncio.gather(
            turn(other, input="two", previous_response_id=first["id"]),
            turn(mine, input="two", previous_response_id=first["id"]),
        )
        assert [event["type"] for event in told] == ["error", "response.completed"]
