"""A2A's streams, with the SDK's own client over real sockets, on both bindings."""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

pytest.importorskip("a2a", reason="a2a-sdk is not installed: it comes with the extra a2a")

from a2a import types as wire
from a2a.utils.errors import InternalError, TaskNotFoundError, UnsupportedOperationError
from a2a_client import HTTP, JSONRPC, SPOKEN, State, a_client, asked, request_of, spoken, text_of, words
from gateway_play import events_in, served
from google.protobuf.json_format import MessageToDict

from turnwise import AgentContext, Content, Runner, agent
from turnwise.agents.composite import Parallel
from turnwise.facts.gateway import GatewayConfig
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict

BINDINGS = pytest.mark.parametrize("binding", [JSONRPC, HTTP])
Told = Sequence[wire.StreamResponse]


@agent(patterns=["which"])
async def asker(context: AgentContext) -> str:
    return f"You want {(await context.ask('Which one?')).text}."


@agent(children=[asker])
async def desk(message: str, context: AgentContext) -> str:
    async with context.stream() as out:
        for piece in ("You said ", message, "."):
            await out.write(piece)
    await context.say("One moment.")
    return "That is all."


def kinds(told: Told) -> list[str]:
    return [each.WhichOneof("payload") for each in told]


def joined(told: Told) -> dict[str, str]:
    """The texts of the artifacts, put together from their pieces."""
    texts: dict[str, str] = {}
    for update in (each.artifact_update for each in told if each.HasField("artifact_update")):
        before = texts.get(update.artifact.artifact_id, "") if update.append else ""
        texts[update.artifact.artifact_id] = before + "".join(part.text for part in update.artifact.parts)
    return texts


def rebuilt(told: Told) -> list[str]:
    """What is said in the artifacts, as a client has them who takes over each task that comes."""
    places = [place for place, each in enumerate(told) if each.HasField("task")]
    return [*({a.artifact_id: text_of(a.parts) for a in told[places[-1]].task.artifacts} | joined(told[places[-1] :])).values()]


def last(told: Told) -> wire.TaskStatus:
    return told[-1].status_update.status


@BINDINGS
async def test_what_is_streamed_is_what_is_on_record(binding: str) -> None:
    async with spoken(desk, binding=binding, streaming=True) as a2a:
        told = await a2a.all_of("hello")
        assert kinds(told)[0] == "task"
        assert set(kinds(told)[1:-1]) == {"artifact_update"}
        assert told[0].task.status.state in (State.TASK_STATE_SUBMITTED, State.TASK_STATE_WORKING)
        assert last(told).state == State.TASK_STATE_COMPLETED
        task = await a2a.client.get_task(wire.GetTaskRequest(id=told[0].task.id))
        assert words(task) == ["You said hello.", "One moment.", "That is all."]
        assert joined(told) == {artifact.artifact_id: words(task)[n] for n, artifact in enumerate(task.artifacts)}
        updates = [each.artifact_update for each in told if each.HasField("artifact_update")]
        first = [each for each in updates if each.artifact.artifact_id == task.artifacts[0].artifact_id]
        assert [each.append for each in first] == [False, *[True] * (len(first) - 1)]
        assert [each.last_chunk for each in first] == [*[False] * (len(first) - 1), True]
        assert {each.task_id for each in updates} == {task.id}
        assert last(told).timestamp == task.status.timestamp
        assert told[-1].status_update.metadata == task.metadata


@BINDINGS
async def test_a_stream_ends_when_something_is_asked_and_another_goes_on(binding: str) -> None:
    async with spoken(desk, binding=binding, streaming=True) as a2a:
        told = await a2a.all_of("which?")
        assert last(told).state == State.TASK_STATE_INPUT_REQUIRED
        task = told[0].task
        assert asked(await a2a.client.get_task(wire.GetTaskRequest(id=task.id))) == "Which one?"
        following = a2a.client.subscribe(wire.SubscribeToTaskRequest(id=task.id))
        assert (await anext(following)).task.status.state == State.TASK_STATE_INPUT_REQUIRED
        told = await a2a.all_of("the large", task_id=task.id)
        assert told[0].task.id == task.id
        assert [message.parts[0].text for message in told[0].task.history][:2] == ["which?", "Which one?"]
        assert (last(told).state, list(joined(told).values())) == (State.TASK_STATE_COMPLETED, ["You want the large."])
        followed = [each async for each in following]
        assert followed[0].status_update.status.state == State.TASK_STATE_WORKING
        assert (last(followed), joined(followed)) == (last(told), joined(told))
        other = (await a2a.all_of("which?"))[0].task
        following = a2a.client.subscribe(wire.SubscribeToTaskRequest(id=other.id))
        await anext(following)
        await a2a.client.cancel_task(wire.CancelTaskRequest(id=other.id))
        assert [last([each]).state async for each in following] == [State.TASK_STATE_CANCELED]


@BINDINGS
async def test_who_subscribes_is_told_what_is_there_and_what_comes(binding: str) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @agent
    async def slow(message: str, context: AgentContext) -> str:
        await context.say("First.")
        async with context.stream() as out:
            await out.write("Then ")
            begun.set()
            await go.wait()
            await out.write("more.")
        return "Last."

    async with spoken(slow, binding=binding, streaming=True) as a2a:
        sent = a2a.client.send_message(request_of("go"))
        task = (await anext(sent)).task
        await begun.wait()
        reading = a2a.client.subscribe(wire.SubscribeToTaskRequest(id=task.id))
        told = [await anext(reading)]
        assert (told[0].task.status.state, words(told[0].task)) == (State.TASK_STATE_WORKING, ["First."])
        told.append(await anext(reading))
        go.set()
        told += [each async for each in reading]
        assert [*joined(told).values()] == ["Then more.", "Last."]
        assert last(told).state == State.TASK_STATE_COMPLETED
        assert last([each async for each in sent]).state == State.TASK_STATE_COMPLETED
        with pytest.raises(UnsupportedOperationError, match="over"):
            await anext(a2a.client.subscribe(wire.SubscribeToTaskRequest(id=task.id)))
        with pytest.raises(TaskNotFoundError):
            await anext(a2a.client.subscribe(wire.SubscribeToTaskRequest(id="task_AAAA")))


async def test_who_leaves_and_comes_again_misses_nothing() -> None:
    """A19."""
    begun, go = asyncio.Event(), asyncio.Event()

    @agent
    async def slow(message: str, context: AgentContext) -> str:
        await context.say("First.")
        begun.set()
        await go.wait()
        return "Last."

    async with spoken(slow, streaming=True) as a2a:
        reading: Any = a2a.client.send_message(request_of("go", message_id="m", context_id="c"))
        task = (await anext(reading)).task
        await begun.wait()
        await reading.aclose()
        go.set()
        told = await a2a.all_of("go", message_id="m", context_id="c")
        assert told[0].task.id == task.id
        said = {a.artifact_id: "".join(p.text for p in a.parts) for a in told[0].task.artifacts} | joined(told)
        assert [*said.values()] == ["First.", "Last."]


class Guard:
    """Sees little at once, so that most of an answer has been told when it blocks."""

    name, reach = "guard", 2

    async def check(self, place: str, content: Content, agent: str | None) -> GuardrailVerdict:
        return GuardrailVerdict("block", reason="not that") if place == "answer" and "forbidden" in content.text else ALLOW


@pytest.mark.parametrize(
    ("ends", "state"),
    [("blocked", State.TASK_STATE_REJECTED), ("fails", State.TASK_STATE_FAILED), ("stopped", State.TASK_STATE_CANCELED)],
)
async def test_words_that_come_to_nothing_are_taken_back(ends: str, state: State) -> None:
    """A client that puts the stream together has what the task is."""

    @agent
    async def speaker(message: str, context: AgentContext) -> None:
        await context.say("First.")
        async with context.stream() as out:
            await out.write("Quite a lot is said before, ")
            await told_so_far.wait()
            if message == "fails":
                raise ValueError("a secret")
            if message == "stopped":
                await asyncio.Event().wait()
            await out.write("and then what is forbidden.")

    told_so_far = asyncio.Event()
    async with spoken(speaker, streaming=True, guardrails=[Guard()]) as a2a:
        told: list[wire.StreamResponse] = []
        async for each in a2a.client.send_message(request_of(ends)):
            told.append(each)
            if any("Quite" in text for text in joined(told).values()) and not told_so_far.is_set():
                told_so_far.set()
                if ends == "stopped":
                    await a2a.client.cancel_task(wire.CancelTaskRequest(id=told[0].task.id))
        task = await a2a.client.get_task(wire.GetTaskRequest(id=told[0].task.id))
        assert (last(told).state, last(told)) == (state, task.status)
        assert rebuilt(told) == words(task) == ["First."]


async def test_one_in_line_is_told_when_it_begins() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @agent
    async def slow(message: str) -> str:
        begun.set()
        await go.wait()
        return f"You said {message}."

    async with spoken(slow, streaming=True) as a2a:
        first = asyncio.create_task(a2a.all_of("one", context_id="c"))
        await begun.wait()
        reading = a2a.client.send_message(request_of("two", context_id="c"))
        task = (await anext(reading)).task
        assert task.status.state == State.TASK_STATE_SUBMITTED
        go.set()
        told = [each async for each in reading]
        assert told[0].status_update.status.state == State.TASK_STATE_WORKING
        assert ([*joined(told).values()], last(told).state) == (["You said two."], State.TASK_STATE_COMPLETED)
        assert last(await first).state == State.TASK_STATE_COMPLETED


async def test_children_of_a_parallel_agent_are_told_side_by_side() -> None:
    def speaker(name: str) -> Any:
        @agent(name=name)
        async def speaks(context: AgentContext) -> None:
            async with context.stream() as out:
                for piece in (f"{name} ", "says ", "this."):
                    await out.write(piece)
                    await asyncio.sleep(0)

        return speaks

    both = Parallel("both", [speaker("left"), speaker("right")])
    async with spoken(both, streaming=True) as a2a:
        told = await a2a.all_of("go")
        assert sorted(joined(told).values()) == ["left says this.", "right says this."]


@pytest.mark.parametrize("path", ["/a2a", "/a2a/rest/message:stream"])
async def test_a_quiet_stream_shows_that_it_lives_and_ends_when_the_process_does(
    path: str, make_runner: Callable[..., Runner]
) -> None:
    go = asyncio.Event()

    @agent
    async def slow(message: str) -> str:
        await go.wait()
        return "Late."

    params = MessageToDict(request_of("go", context_id="c"))
    body = params if "rest" in path else {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": params}
    async with served(make_runner(slow), GatewayConfig(stream_ping_seconds=0.05)) as client:
        async with client.stream("POST", path, json=body, headers=SPOKEN) as answer:
            assert answer.headers["cache-control"] == "no-cache"
            text = ""
            async for chunk in answer.aiter_text():
                text += chunk
                if text.count(": ping") > 1:
                    client.front.closing.set()
        (*_, (kind, _, data)) = events_in(text)
        assert kind == "error"
        error = json.loads(data)["error"]
        assert "again" in error["message"]
        assert error["code"] == (503 if "rest" in path else -32603)
        go.set()


async def test_the_client_raises_what_breaks_a_stream_off() -> None:
    go = asyncio.Event()

    @agent
    async def slow(message: str) -> str:
        await go.wait()
        return "Late."

    async with spoken(slow, streaming=True) as a2a:
        reading = a2a.client.send_message(request_of("go"))
        await anext(reading)
        a2a.gateway.front.closing.set()
        with pytest.raises(InternalError, match="stopped"):
            await anext(reading)
        go.set()


async def test_a_task_goes_on_in_another_process(make_runner: Callable[..., Runner]) -> None:
    """Of the same store: it is looked up, read on, and cancelled there."""
    begun, go = asyncio.Event(), asyncio.Event()

    @agent
    async def slow(message: str, context: AgentContext) -> str:
        await context.say("First.")
        begun.set()
        await go.wait()
        return "Last."

    async with AsyncExitStack() as stack:
        here, there = [await stack.enter_async_context(served(make_runner(slow))) for _ in range(2)]
        one, _ = await stack.enter_async_context(a_client(here))
        other, _ = await stack.enter_async_context(a_client(there, streaming=True))
        request = request_of("go", configuration={"return_immediately": True})
        (told,) = [each async for each in one.send_message(request)]
        await begun.wait()
        reading = other.subscribe(wire.SubscribeToTaskRequest(id=told.task.id))
        assert words((await anext(reading)).task) == ["First."]
        go.set()
        rest = [each async for each in reading]
        assert ([*joined(rest).values()], last(rest).state) == (["Last."], State.TASK_STATE_COMPLETED)
        begun.clear()
        go.clear()
        request.message.message_id = "another"
        (told,) = [each async for each in one.send_message(request)]
        await begun.wait()
        ended = await other.cancel_task(wire.CancelTaskRequest(id=told.task.id))
        assert ended.status.state == State.TASK_STATE_CANCELED
