"""Over real sockets: responses on a web socket, with the client as it is."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from gateway_play import Served, key_for, served
from openai.lib.responses_websocket import AsyncResponsesWebSocketSession, ResponsesWebSocketLimits
from responses_play import bearer, client_of, opened, parrot, remembering, sync_client_of
from runner_play import Gate, soon
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from turnwise import Runner, agent
from turnwise.facts.gateway import AuthConfig, CallerLimits, GatewayConfig

MakeRunner = Callable[..., Runner]
LOCKED = GatewayConfig(auth=AuthConfig())
LAST = {"response.completed", "response.incomplete", "response.failed", "error"}


async def told(connection: Any) -> list[Any]:
    """The events up to the end of a response."""
    events = []
    async for event in connection:
        events.append(event)
        if event.type in LAST:
            break
    return events


def at(gateway: Served) -> str:
    return gateway.address.replace("http", "ws") + "/v1/responses"


async def asked_raw(socket: Any, event: Any) -> dict[str, Any]:
    """What comes first when that is sent, as it is."""
    await socket.send(event if isinstance(event, str | bytes) else json.dumps(event))
    answer: dict[str, Any] = json.loads(await socket.recv())
    return answer


async def test_several_responses_on_one_connection(make_runner: MakeRunner) -> None:
    async with opened(make_runner(remembering())) as (client, _), client.responses.connect() as connection:
        await connection.response.create(model="turnwise", input="one")
        first = await told(connection)
        assert [event.sequence_number for event in first] == list(range(len(first)))
        made = first[-1].response
        await connection.response.create(model="turnwise", input="two", previous_response_id=made.id)
        second = (await told(connection))[-1].response
        assert (made.output_text, second.output_text) == ("one", "one | two")
        assert await client.responses.retrieve(second.id) == second
        again = [event.to_dict() async for event in await client.responses.retrieve(made.id, stream=True)]
        assert again == [event.to_dict() for event in first]


# It uses the library underneath in a way that is deprecated there.
@pytest.mark.filterwarnings(r"ignore:connect\(\) must be used as a context manager:DeprecationWarning")
async def test_the_synchronous_client(make_runner: MakeRunner) -> None:
    async with served(make_runner(parrot)) as gateway:

        def talk() -> str:
            with sync_client_of(gateway) as client, client.responses.connect() as connection:
                connection.response.create(model="turnwise", input="hi")
                for event in connection:
                    if event.type == "response.completed":
                        return str(event.response.output_text)
            return ""

        assert await asyncio.to_thread(talk) == "You said hi."


async def test_lanes_do_not_wait_for_each_other(make_runner: MakeRunner) -> None:
    gate = Gate()

    @agent
    async def either(message: str) -> str:
        if message == "slow":
            gate.began.set()
            await gate.go.wait()
        return message

    limits = ResponsesWebSocketLimits(
        max_lanes=4, max_events_per_lane=100, max_events=400, max_bytes_per_lane=10**6, max_bytes=4 * 10**6
    )
    async with (
        opened(make_runner(either)) as (client, _),
        client.responses.connect() as connection,
        AsyncResponsesWebSocketSession(connection, limits=limits) as session,
    ):
        one, two = session.lane("one"), session.lane("two")
        await one.send({"type": "response.create", "model": "turnwise", "input": "slow"})
        await soon(gate.began.wait())
        await two.send({"type": "response.create", "model": "turnwise", "input": "quick"})
        assert (await soon(two.get_final_response())).output_text == "quick"
        gate.go.set()
        assert (await soon(one.get_final_response())).output_text == "slow"


async def test_one_lane_answers_in_turn(make_runner: MakeRunner) -> None:
    async with opened(make_runner(parrot)) as (client, _), client.responses.connect() as connection:
        for number in range(5):
            await connection.response.create(model="turnwise", input=f"{number}", stream_id="lane")
        events = [await told(connection) for _ in range(5)]
    assert [each[-1].response.output_text for each in events] == [f"You said {number}." for number in range(5)]
    assert {event.stream_id for each in events for event in each} == {"lane"}


async def test_what_is_wrong_is_said_and_the_connection_goes_on(make_runner: MakeRunner) -> None:
    async with opened(make_runner(parrot)) as (_, gateway), connect(at(gateway)) as socket:
        create = {"type": "response.create", "model": "turnwise", "input": "hi"}
        for event, status, param in (
            ("no json", 422, None),
            (b"\xff\xfe", 422, None),
            ([1], 422, None),
            ({"type": "response.dance"}, 422, "type"),
            ({**create, "stream_id": "a b"}, 422, "stream_id"),
            ({**create, "model": "nobody"}, 404, "model"),
            ({**create, "input": 7}, 422, "input"),
            ({**create, "input": []}, 422, "input"),
            ({**create, "background": True}, 422, "background"),
            ({**create, "generate": False}, 422, "generate"),
            ({**create, "conversation": "none"}, 404, "conversation"),
            ({**create, "dance": True}, 422, "dance"),
        ):
            answer = await asked_raw(socket, event)
            assert (answer["type"], answer["status"], answer["error"]["param"]) == ("error", status, param), answer
        steered = await asked_raw(socket, {"type": "response.steer", "input": "faster", "previous_response_id": "resp_1"})
        assert (steered["type"], steered["error"]["code"]) == ("response.steer.failed", "steering_not_supported")
        assert steered["steer"] == {"input": "faster", "previous_response_id": "resp_1"}
        assert (await asked_raw(socket, create))["type"] == "response.created"


async def test_a_connection_has_so_many_lanes(make_runner: MakeRunner) -> None:
    gate = Gate()
    create = {"type": "response.create", "model": "turnwise", "input": "hi"}
    config = GatewayConfig(limits=CallerLimits(runs=100))
    async with opened(make_runner(gate.agent), config) as (_, gateway), connect(at(gateway)) as socket:
        for number in range(33):
            await socket.send(json.dumps({**create, "stream_id": f"lane-{number}"}))
        while (answer := json.loads(await socket.recv()))["type"] != "error":
            assert answer["type"] in {"response.created", "response.in_progress"}
        assert (answer["error"]["param"], answer["stream_id"]) == ("stream_id", "lane-32")
        gate.go.set()


async def test_a_connection_has_so_many_requests_that_wait(make_runner: MakeRunner) -> None:
    gate = Gate()
    async with opened(make_runner(gate.agent)) as (_, gateway), connect(at(gateway)) as socket:
        for number in range(70):
            await socket.send(json.dumps({"type": "response.create", "input": str(number), "stream_id": "a"}))
        while (answer := json.loads(await socket.recv()))["type"] != "error":
            assert answer["type"] in {"response.created", "response.in_progress"}
        assert (answer["status"], answer["error"]["code"], answer["stream_id"]) == (429, "rate_limit_exceeded", "a")
        gate.go.set()


async def test_who_hangs_up_stops_nothing(make_runner: MakeRunner) -> None:
    gate = Gate()
    async with opened(make_runner(gate.agent)) as (client, _):
        async with client.responses.connect() as connection:
            await connection.response.create(model="turnwise", input="hi")
            id_ = (await connection.recv()).response.id
            await soon(gate.began.wait())
        gate.go.set()
        events = [event async for event in await client.responses.retrieve(id_, stream=True)]
        assert events[-1].response.output_text == "answer to hi"


async def test_nobody_comes_in_without_a_key(make_runner: MakeRunner) -> None:
    runner = make_runner(parrot)
    ann = await key_for(runner)
    async with served(runner, LOCKED) as gateway:
        async with client_of(gateway, "wrong") as client:
            with pytest.raises(InvalidStatus) as refused:
                await client.responses.connect().enter()
            assert refused.value.response.status_code == 401
            assert json.loads(refused.value.response.body or b"")["error"]["code"] == "invalid_api_key"
        async with client_of(gateway, bearer(ann)) as client, client.responses.connect() as connection:
            await connection.response.create(model="turnwise", input="hi")
            assert (await told(connection))[-1].response.output_text == "You said hi."


async def test_a_key_that_is_revoked_asks_nothing_more(make_runner: MakeRunner) -> None:
    runner = make_runner(parrot)
    ann = await key_for(runner)
    async with (
        served(runner, LOCKED) as gateway,
        client_of(gateway, bearer(ann)) as client,
        client.responses.connect() as connection,
    ):
        await connection.response.create(model="turnwise", input="hi")
        await told(connection)
        (key,) = await runner.store.keys.list(runner.app)  # type: ignore[attr-defined]
        await runner.store.keys.expire(runner.app, key.id, key.created_at)  # type: ignore[attr-defined]
        while True:  # a key is remembered for a second
            await connection.response.create(model="turnwise", input="hi")
            if (last := (await told(connection))[-1]).type == "error":
                break
        assert (last.status, last.error.code) == (401, "invalid_api_key")


async def test_each_response_counts_as_a_request(make_runner: MakeRunner) -> None:
    config = GatewayConfig(limits=CallerLimits(requests=3))
    async with opened(make_runner(parrot), config) as (client, _), client.responses.connect() as connection:
        for _ in range(2):
            await connection.response.create(model="turnwise", input="hi")
            assert (await told(connection))[-1].type == "response.completed"
        await connection.response.create(model="turnwise", input="hi")
        refused = (await told(connection))[-1]
        assert (refused.status, refused.error.code) == (429, "rate_limit_exceeded")
        assert int(refused.error.headers["Retry-After"]) > 0


async def test_what_is_too_large_closes_it(make_runner: MakeRunner) -> None:
    async with opened(make_runner(parrot), GatewayConfig(body_bytes=2000)) as (_, gateway), connect(at(gateway)) as socket:
        await socket.send("x" * 3000)
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


async def test_a_gateway_that_leaves_says_so(make_runner: MakeRunner) -> None:
    gate = Gate()
    runner = make_runner(gate.agent)
    async with opened(runner) as (client, gateway), connect(at(gateway)) as socket:
        await socket.send(json.dumps({"type": "response.create", "model": "turnwise", "input": "hi"}))
        assert [json.loads(await socket.recv())["sequence_number"] for _ in range(2)] == [0, 1]
        stream = await client.responses.create(model="turnwise", input="hi", stream=True)
        assert [(await anext(stream)).type for _ in range(2)] == ["response.created", "response.in_progress"]
        gateway.front.closing.set()
        said = json.loads(await socket.recv())
        assert (said["type"], said["sequence_number"], said["error"]["code"]) == ("error", 2, "request.closing")
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
        (last,) = [event async for event in stream]
        assert (last.type, last.sequence_number, last.code) == ("error", 2, "request.closing")
        gate.go.set()
