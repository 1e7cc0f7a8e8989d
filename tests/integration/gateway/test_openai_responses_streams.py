"""Over real sockets, with the client as it is: responses as streams, followed again, in the background, and cancelled."""

import asyncio
from collections.abc import Callable
from typing import Any

from responses_play import (
    WEATHER,
    opened,
    parrot,
    read,
    texts_of,
    told,
)
from runner_play import Gate, soon

from turnwise import Flow, LlmAgent, Runner, agent
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.testing.models import ScriptedModel, calls

MakeRunner = Callable[..., Runner]
LOCKED = GatewayConfig(auth=AuthConfig())


async def test_a_stream_tells_all_of_it_in_order(make_runner: MakeRunner) -> None:
    async with opened(make_runner(parrot)) as (client, _):
        events = await read(await client.responses.create(model="turnwise", input="one two", stream=True))
        assert [event.type for event in events] == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            *["response.output_text.delta"] * 4,
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert "".join(event.delta for event in events[4:8]) == events[8].text == "You said one two."
        assert (events[0].response.status, events[0].response.output) == ("in_progress", [])
        found = await client.responses.retrieve(events[0].response.id)
        assert found == events[-1].response
        assert {event.item_id for event in events[3:9]} == {found.output[0].id}


async def test_the_clients_own_accumulation_is_what_is_retrieved(make_runner: MakeRunner) -> None:
    script = ScriptedModel(["I look.", calls("weather", {"city": "Oslo"})])
    async with opened(make_runner(LlmAgent("desk", model=script))) as (client, _):
        async with client.responses.stream(model="turnwise", input="weather?", tools=[WEATHER]) as stream:
            seen = [event.type async for event in stream]
            final = await stream.get_final_response()
        assert "response.function_call_arguments.done" in seen
        assert final.output_text == "I look."
        found = await client.responses.retrieve(final.id)
        assert [item.id for item in final.output] == [item.id for item in found.output]


async def test_what_is_said_on_the_tasks_of_a_flow_is_no_part_of_it(make_runner: MakeRunner) -> None:
    trip = Flow("trip")

    @trip.task
    async def plan(request: str, context: Any) -> str:
        async with context.stream() as thinking:
            await thinking.write("Let me think about it.")
        return "Go to the museum."

    async with opened(make_runner(trip)) as (client, _):
        events = await read(await client.responses.create(model="turnwise", input="Oslo", stream=True))
        assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Go to the museum."
        assert texts_of(events[-1].response) == ["Go to the museum."]


async def test_any_number_of_readers_count_alike(make_runner: MakeRunner) -> None:
    """Readers re-attach by number: while it runs, and after it, behind each of them."""
    gate = Gate()

    @agent
    async def slow(message: str, context: Any) -> None:
        async with context.stream() as answer:
            await answer.write("first half of ")
            gate.began.set()
            await gate.go.wait()
            await answer.write("an answer")

    async with opened(make_runner(slow)) as (client, _):
        live = await client.responses.create(model="turnwise", input="go", stream=True)
        await soon(gate.began.wait())
        first = [await anext(live) for _ in range(6)]
        id_ = first[0].response.id
        assert (await client.responses.retrieve(id_)).status == "in_progress"
        late = await client.responses.retrieve(id_, stream=True)
        gate.go.set()
        whole = [*map(told, first), *map(told, await read(live))]
        assert [*map(told, await read(late))] == whole
        assert [wire["sequence_number"] for wire in whole] == list(range(len(whole)))
        for after in range(len(whole) + 1):
            rest = await read(await client.responses.retrieve(id_, stream=True, starting_after=after))
            assert [*map(told, rest)] == whole[after + 1 :]


async def test_another_process_tells_the_same(make_runner: MakeRunner) -> None:
    gate = Gate()

    @agent
    async def slow(message: str, context: Any) -> None:
        async with context.stream() as answer:
            await answer.write("first half of ")
            gate.began.set()
            await gate.go.wait()
            await answer.write("an answer")

    async with opened(make_runner(slow)) as (client, _), opened(make_runner(slow)) as (other, _):
        live = await client.responses.create(model="turnwise", input="go", stream=True)
        id_ = (await anext(live)).response.id
        await soon(gate.began.wait())
        assert (await other.responses.retrieve(id_)).status == "in_progress"
        following = await other.responses.retrieve(id_, stream=True, starting_after=0)
        gate.go.set()
        assert [*map(told, await read(following))] == [*map(told, await read(live))]
        assert await other.responses.retrieve(id_) == await client.responses.retrieve(id_)


async def test_eight_streams_at_once(make_runner: MakeRunner) -> None:
    async with opened(make_runner(parrot)) as (client, _):

        async def one(number: int) -> str:
            stream = await client.responses.create(model="turnwise", input=f"number {number}", stream=True)
            events = await read(stream)
            assert [event.sequence_number for event in events] == list(range(len(events)))
            return str(events[-1].response.output_text)

        answers = await asyncio.gather(*map(one, range(8)))
    assert answers == [f"You said number {number}." for number in range(8)]


async def test_who_leaves_early_stops_nothing(make_runner: MakeRunner) -> None:
    gate = Gate()
    async with opened(make_runner(gate.agent)) as (client, _):
        stream = await client.responses.create(model="turnwise", input="hi", stream=True)
        id_ = (await anext(stream)).response.id
        await stream.close()
        await soon(gate.began.wait())
        gate.go.set()
        events = await read(await client.responses.retrieve(id_, stream=True))
        assert events[-1].response.output_text == "answer to hi"


async def test_in_the_background(make_runner: MakeRunner) -> None:
    gate = Gate()
    async with opened(make_runner(gate.agent)) as (client, _):
        begun = await client.responses.create(model="turnwise", input="hi", background=True)
        assert (begun.status, begun.background, begun.output) == ("in_progress", True, [])
        assert begun.usage is None
        assert begun.completed_at is None
        assert (await client.responses.retrieve(begun.id)).status == "in_progress"
        following = await client.responses.retrieve(begun.id, stream=True)
        gate.go.set()
        assert (await read(following))[-1].response.output_text == "answer to hi"
        done = await client.responses.retrieve(begun.id)
        assert (done.status, done.output_text, done.background) == ("completed", "answer to hi", True)


async def test_cancelled_while_it_runs_and_while_it_waits_in_line(make_runner: MakeRunner) -> None:
    gate = Gate()
    runner = make_runner(gate.agent)
    async with opened(runner) as (client, gateway):
        await gateway.post("/api/v1/sessions", json={"id": "s"})
        running = await client.responses.create(model="turnwise", input="one", background=True, conversation="s")
        await soon(gate.began.wait())
        queued = await client.responses.create(model="turnwise", input="two", background=True, conversation="s")
        assert (queued.status, (await client.responses.retrieve(queued.id)).status) == ("queued", "queued")
        assert (await client.responses.cancel(queued.id)).status == "cancelled"
        never = await read(await client.responses.retrieve(queued.id, stream=True))
        assert [(event.type, event.sequence_number) for event in never] == [
            ("response.created", 0),
            ("response.in_progress", 1),
            ("response.incomplete", 2),
        ]
        assert (never[-1].response.status, never[-1].response.output) == ("cancelled", [])
        following = await client.responses.retrieve(running.id, stream=True)
        assert (await client.responses.cancel(running.id)).status == "cancelled"
        assert (await client.responses.cancel(running.id)).status == "cancelled"
        last = (await read(following))[-1]
        assert (last.type, last.response.status) == ("response.incomplete", "cancelled")
