"""Answers as server-sent events over our own API: live, cut anywhere, re-attached, and ended when the process is stopped."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from gateway_play import Served, events_in, key_for, served
from runner_play import Gate, soon

from turnwise import AgentContext, Runner, agent
from turnwise.facts.content import Content, DataPart, TextPart
from turnwise.facts.gateway import AuthConfig, GatewayConfig

MakeRunner = Callable[..., Runner]
S = "/api/v1/sessions/s"
STREAM = {"Accept": "text/event-stream"}
WORDS = [f"word {n}" for n in range(6)]


class Told(list[tuple[str, str, Any]]):
    """What a reader got: (event, id, data)."""

    @property
    def stored(self) -> list[int]:
        return [int(id_) for event, id_, _ in self if event == "event"]

    @property
    def last_id(self) -> str:
        return next((id_ for _, id_, _ in reversed(self) if id_), "")

    @property
    def answer(self) -> Any:
        return next((data for event, _, data in self if event == "answer"), None)


async def read(
    client: Served,
    path: str,
    last_id: str = "",
    *,
    cut: int | None = None,
    seen: Callable[[Told], None] | None = None,
    **body: Any,
) -> Told:
    """Reads a stream to its end, or until so many items came; then the connection is cut. seen: told of what came so far."""
    told, rest = Told(), ""
    headers = STREAM | ({"Last-Event-ID": last_id} if last_id else {})
    method = "POST" if body else "GET"
    async with client.stream(method, path, headers=headers, json=body or None) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for piece in answer.aiter_text():
            *blocks, rest = (rest + piece).split("\n\n")
            told += [(event, id_, json.loads(data)) for block in blocks for event, id_, data in events_in(block)]
            if seen is not None:
                seen(told)
            if cut is not None and len(told) >= cut:
                del told[cut:]
                break
    return told


class Talker:
    """An agent that says its words one by one, each when the gate is opened for it; asks for nothing."""

    def __init__(self) -> None:
        self.gate = Gate()

        @agent
        async def talks(message: str, context: AgentContext) -> str:
            for word in WORDS:
                await context.say(word)
            self.gate.began.set()
            await self.gate.go.wait()
            return "end"

        self.agent = talks


@pytest.mark.parametrize("cut", range(len(WORDS) + 2))
@pytest.mark.parametrize("by", ["message", "invocation"])
async def test_a_reader_that_is_cut_anywhere_gets_each_event_once(make_runner: MakeRunner, cut: int, by: str) -> None:
    """Decision 5, A22: cut after so many events while the answer is being made, and again later, it goes on by the last id."""
    talker = Talker()
    async with served(make_runner(talker.agent)) as client:
        first = await read(client, f"{S}/messages", cut=cut, content="hi", id="m-1")
        await talker.gate.began.wait()
        path = f"{S}/messages/m-1"
        if by == "invocation":
            path = f"{S}/invocations/{(await client.get(path)).json()['invocation_id']}/events"
        left = len(WORDS) + 1 - cut
        second = await read(client, path, first.last_id, cut=(left + 1) // 2)
        talker.gate.go.set()
        third = await read(client, path, second.last_id or first.last_id)
        assert first.stored + second.stored + third.stored == list(range(1, len(WORDS) + 3))
        assert third.answer["text"] == "\n".join([*WORDS, "end"])
        assert {event for event, *_ in [*first, *second, *third]} == {"event", "answer"}


async def test_the_same_message_streamed_again_goes_on_behind_the_last_event(make_runner: MakeRunner) -> None:
    """A retry after a lost connection is the same request with Last-Event-ID."""
    talker = Talker()
    async with served(make_runner(talker.agent)) as client:
        first = await read(client, f"{S}/messages", cut=3, content="hi", id="m-1")
        again = await read(client, f"{S}/messages", first.last_id, cut=2, content="hi", id="m-1")
        assert (first.stored, again.stored) == ([1, 2, 3], [4, 5])
        talker.gate.go.set()


async def test_pieces_come_before_the_event_that_holds_them_all(make_runner: MakeRunner) -> None:
    """A19."""
    pieces, gate = ["Some words, ", "in pieces."], Gate()

    @agent
    async def speaks(message: str, context: AgentContext) -> None:
        async with context.stream() as out:
            for piece in pieces:
                await out.write(piece)
            await gate.go.wait()

    def when_all_came(told: Told) -> None:
        if told[-1][0] == "partial" and sum(event == "partial" for event, *_ in told) == len(pieces):
            gate.go.set()

    async with served(make_runner(speaks)) as client:
        told = await soon(read(client, f"{S}/messages", content="hi", seen=when_all_came))
        assert [event for event, *_ in told] == ["event", "partial", "partial", "event", "event", "answer"]
        partial = [data for event, _, data in told if event == "partial"]
        assert [data["content"]["parts"][0]["text"] for data in partial] == pieces
        whole = told[3][2]
        assert (whole["content"]["parts"][0]["text"], {data["id"] for data in partial}) == ("".join(pieces), {whole["id"]})
        assert {id_ for event, id_, _ in told if event != "event"} == {""}


async def test_the_stream_of_a_whole_invocation_has_all_its_messages(make_runner: MakeRunner) -> None:
    @agent
    async def asks(message: str, context: AgentContext) -> str:
        return f"You said {(await context.ask('What?')).text}"

    async with served(make_runner(asks)) as client:
        asked = await read(client, f"{S}/messages", content="hi")
        assert asked.answer["state"] == "waiting"
        path = f"{S}/invocations/{asked.answer['invocation_id']}"
        said = await read(client, f"{path}/answer", call_id=asked.answer["waits"][0]["call_id"], text="this")
        assert (said.stored, said.answer["text"]) == ([3, 4], "You said this")
        whole = await read(client, f"{path}/events")
        assert (whole.stored, whole.answer["text"]) == ([1, 2, 3, 4], "What?\nYou said this")
        once_more = await client.post(f"{path}/regenerate", headers=STREAM)
        assert events_in(once_more.text)[-1][0] == "answer"


@pytest.mark.parametrize("last_id", ["x", "-1", "1.5", "9" * 19, "１"])
async def test_what_is_no_event_id_is_refused(make_runner: MakeRunner, last_id: str) -> None:
    gate = Gate()
    gate.go.set()
    async with served(make_runner(gate.agent)) as client:
        await client.send_message("hi", id="m-1")
        headers = {**STREAM, "Last-Event-ID": last_id.encode()}
        answer = await client.get(f"{S}/messages/m-1", headers=headers)  # type: ignore[arg-type]
        assert (answer.status_code, answer.json()["code"]) == (422, "request.invalid")


async def test_an_id_from_the_future_gets_nothing_but_the_answer(make_runner: MakeRunner) -> None:
    @agent
    def echo(message: str) -> str:
        return message

    async with served(make_runner(echo)) as client:
        await client.send_message("hi", id="m-1")
        told = await read(client, f"{S}/messages/m-1", "999")
        assert (told.stored, told.answer["text"]) == ([], "hi")


async def test_when_the_process_is_stopped_the_reader_is_told_to_come_again(make_runner: MakeRunner) -> None:
    gate = Gate()
    runner = make_runner(gate.agent)

    async def until_closing(client: Served) -> AsyncIterator[tuple[str, str, str]]:
        async with client.stream("POST", f"{S}/messages", headers=STREAM, json={"content": "hi", "id": "m-1"}) as answer:
            text = ""
            async for piece in answer.aiter_text():
                text += piece
                if "event: event" in text and not client.front.closing.is_set():
                    client.front.closing.set()
        for each in events_in(text):
            yield each

    async with served(runner) as client:
        told = [each async for each in until_closing(client)]
        assert [event for event, *_ in told] == ["event", "closing"]
        assert json.loads(told[-1][2])["code"] == "request.closing"
    gate.go.set()
    async with served(runner) as client:
        rest = await read(client, f"{S}/messages/m-1", told[0][1])
        assert rest.answer["text"] == "answer to hi"


async def test_numbers_that_json_does_not_know_are_written_as_null(make_runner: MakeRunner) -> None:
    @agent
    async def odd(message: str, context: AgentContext) -> Content:
        return Content(parts=(TextPart(text="x"), DataPart(data={"n": float("nan")})))

    def refuse(name: str) -> None:
        raise AssertionError(name)

    async with served(make_runner(odd)) as client:
        streamed = (await client.send_message("hi", id="m-1", headers=STREAM)).text
        for _, _, data in events_in(streamed):
            json.loads(data, parse_constant=refuse)
        for path in ("events", "messages/m-1", "decisions/1"):
            json.loads((await client.get(f"{S}/{path}")).text, parse_constant=refuse)


async def test_a_reader_who_leaves_leaves_the_answer_alone(make_runner: MakeRunner) -> None:
    """A22."""
    gate = Gate()
    async with served(make_runner(gate.agent)) as client:
        await read(client, f"{S}/messages", cut=1, content="hi", id="m-1")
        gate.go.set()
        assert (await client.get(f"{S}/messages/m-1?wait=true")).json()["text"] == "answer to hi"
        await soon(client.front.runner.idle())


async def test_another_users_stream_is_not_there(make_runner: MakeRunner) -> None:
    gate = Gate()
    gate.go.set()
    runner = make_runner(gate.agent)
    async with served(runner, GatewayConfig(auth=AuthConfig())) as client:
        ann, bo = await key_for(runner, user="ann"), await key_for(runner, user="bo")
        sent = (await client.send_message("hi", id="m-1", headers=ann)).json()
        for path in ("messages/m-1", f"invocations/{sent['invocation_id']}/events"):
            answer: httpx.Response = await client.get(f"{S}/{path}", headers=STREAM | bo)
            assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
