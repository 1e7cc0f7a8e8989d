"""The client and a gateway over real sockets: messages and answers."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from client_play import between
from gateway_play import key_for, served
from llm_play import last_results
from offers_play import SHOW, offering, shows
from runner_play import Gate, soon

from turnwise import AgentContext, LlmAgent, MessageContext, Runner, agent, tool
from turnwise.client import Answer, Client, Unreached
from turnwise.facts.content import BlobPart, Content, TextPart
from turnwise.facts.errors import (
    ConfigError,
    EmptyMessage,
    Forbidden,
    InvocationMissing,
    MessageTooLarge,
    NotAuthenticated,
    NothingHere,
    QueueFull,
    RequestInvalid,
    SessionBusy,
    SessionMissing,
    StoreUnavailable,
    TooMany,
    UnknownToolCall,
)
from turnwise.facts.events import Event
from turnwise.facts.gateway import AuthConfig, CallerLimits, GatewayConfig
from turnwise.facts.limits import Limits, RunConfig
from turnwise.ports.model import ModelRequest
from turnwise.testing.models import ScriptedModel, calls

MakeRunner = Callable[..., Runner]
WITH_KEYS = GatewayConfig(auth=AuthConfig())


@agent
async def echo(message: str, context: AgentContext) -> str:
    await context.say("thinking")
    return f"You said {message}"


@agent
async def asking(message: str, context: AgentContext) -> str:
    return f"From {(await context.ask('Where from?')).text} to {message}"


@agent
async def failing(message: str) -> str:
    raise ValueError("a secret of the inside")


async def key(runner: Runner, **rights: Any) -> str:
    """A new key with these rights."""
    return (await key_for(runner, **rights))["Authorization"].removeprefix("Bearer ")


def stored(said: list[Event | Answer]) -> list[int | None]:
    """The sequence numbers of stored events."""
    return [each.sequence for each in said if isinstance(each, Event) and not each.partial]


async def test_a_message_and_its_answer(make_runner: MakeRunner) -> None:
    async with served(make_runner(echo)) as gateway, Client(gateway.address) as client:
        answer = await client.send("s1", "hi", id="m1")
        assert (answer.text, answer.state, answer.session_id) == ("thinking\nYou said hi", "ended", "s1")
        assert answer.end is not None
        assert answer.end.reason == "completed"
        assert answer.selection is not None
        assert answer.selection.agent == "echo"
        assert await client.send("s1", "hi", id="m1") == answer
        assert await client.find("s1", message_id="m1") == answer
        assert await client.find("s1", message_id="m1", wait=True) == answer
        whole = await client.find("s1", invocation_id=answer.invocation_id)
        assert whole.text == answer.text


async def test_events_as_they_come_and_the_answer_as_the_last(make_runner: MakeRunner) -> None:
    model = ScriptedModel("A word after a word.")
    async with served(make_runner(LlmAgent("writer", model=model))) as gateway, Client(gateway.address) as client:
        said = [each async for each in client.stream("s1", "write", id="m1")]
        *events, answer = said
        assert isinstance(answer, Answer)
        assert answer.text == "A word after a word."
        assert stored(said) == list(range(1, len(stored(said)) + 1))
        pieces = [each for each in events if isinstance(each, Event) and each.partial]
        assert pieces
        assert "".join(each.text for each in pieces) in answer.text
        again = [each async for each in client.attach("s1", message_id="m1", after=1)]
        assert stored(again) == stored(said)[1:]
        assert again[-1] == answer
        whole = [each async for each in client.attach("s1", invocation_id=answer.invocation_id)]
        assert stored(whole) == stored(said)


async def test_content_and_context_come_as_they_were_sent(make_runner: MakeRunner) -> None:
    seen: list[tuple[Content, MessageContext]] = []

    @agent
    async def reader(context: AgentContext) -> str:
        seen.append((context.message, context.message_context))
        return "read"

    content = Content(role="user", parts=(TextPart(text="see: ä €"), BlobPart(data=bytes(range(256)), name="all.bin")))
    known = MessageContext(channel="mail", previous_agents=("reader",), attributes={"customer": {"id": 7}})
    async with served(make_runner(reader)) as gateway, Client(gateway.address) as client:
        await client.send("s1", content, context=known)
    assert seen == [(content, known)]


async def test_any_id_that_can_be_stored_finds_its_message(make_runner: MakeRunner) -> None:
    odd = ["a/b", "..", "../x", "a b?c=d#e%20f", "ä€\U0001f600", "a\tb\x01", "x/", "//y", "+", "x" * 200, ".", "/"]
    async with served(make_runner(echo)) as gateway, Client(gateway.address) as client:
        for id_ in odd:
            answer = await client.send("s 1?ä", "hi", id=id_)
            assert (await client.find("s 1?ä", message_id=id_)).invocation_id == answer.invocation_id, id_


async def test_a_message_may_be_handed_in_and_read_elsewhere(make_runner: MakeRunner) -> None:
    gate = Gate()
    async with served(make_runner(gate.agent)) as gateway, Client(gateway.address) as client:
        accepted = await client.send("s1", "hi", wait=False)
        assert accepted.state == "running"
        assert (await client.find("s1", message_id=accepted.message_id)).state == "running"
        waiting = asyncio.create_task(client.find("s1", message_id=accepted.message_id, wait=True))
        reading = client.attach("s1", message_id=accepted.message_id)
        assert (await soon(anext(reading))).text == "hi"
        gate.go.set()
        rest = [each async for each in reading]
        assert rest[-1] == await soon(waiting)
        assert rest[-1].text == "answer to hi"


async def test_who_would_answer(make_runner: MakeRunner) -> None:
    async with served(make_runner(echo)) as gateway, Client(gateway.address) as client:
        selection = await client.select("hi", context=MessageContext(direct_agent_id="echo"))
        assert (selection.agent, selection.method) == ("echo", "direct_routing")
        assert [each async for each in client.sessions.list()] == []
        with pytest.raises(SessionMissing):
            await client.select("hi", session="s1")


async def test_a_question_is_answered(make_runner: MakeRunner) -> None:
    async with served(make_runner(asking)) as gateway, Client(gateway.address) as client:
        asked = await client.send("s1", "Rome")
        assert (asked.state, asked.text, asked.end) == ("waiting", "Where from?", None)
        (wait,) = asked.waits
        assert (wait.kind, wait.agent) == ("reply", "asking")
        assert [each.call_id for each in (await client.sessions.get("s1")).waits] == [wait.call_id]
        answer = await client.answer("s1", wait, text="Bonn")
        assert (answer.state, answer.text) == ("ended", "From Bonn to Rome")
        assert await client.answer("s1", wait, text="Bonn") == answer
        with pytest.raises(UnknownToolCall):
            await client.answer("s1", wait, text="Bonn", id="another")


@pytest.mark.parametrize("word", [True, False])
async def test_leave_is_given_or_not(make_runner: MakeRunner, word: bool) -> None:
    paid: list[int] = []

    @tool(confirm=True)
    async def pay(amount: int) -> str:
        """Pays."""
        paid.append(amount)
        return "paid"

    clerk = LlmAgent("clerk", model=ScriptedModel(calls("pay", {"amount": 3}), "Done."), tools=[pay])
    async with served(make_runner(clerk)) as gateway, Client(gateway.address) as client:
        await client.send("s1", "pay")
        (wait,) = (await client.sessions.get("s1")).waits
        assert wait.kind == "confirmation"
        with pytest.raises(RequestInvalid):
            await client.answer("s1", wait, text="yes")
        answer = await client.answer("s1", wait, approved=word, reason="" if word else "too dear")
        assert answer.text == "Done."
    assert paid == ([3] if word else [])


@pytest.mark.parametrize(("result", "failed"), [({"total": 3}, False), (None, False), ("broken", True)])
async def test_what_a_tool_gave_may_come_later(make_runner: MakeRunner, result: Any, failed: bool) -> None:
    def told(request: ModelRequest) -> str:
        (part,) = last_results(request)
        return f"{part.result} {part.failed}"

    guide = LlmAgent("guide", model=ScriptedModel(shows("Bonn"), told))
    async with served(make_runner(guide)) as gateway, Client(gateway.address) as client:
        asked = await client.send("s1", "Where is Bonn?", context=offering(SHOW))
        (wait,) = asked.waits
        assert (wait.kind, wait.tool, wait.arguments) == ("tool_result", "show_map", {"city": "Bonn"})
        accepted = await client.answer("s1", wait, result=result, failed=failed, wait=False)
        answer = await client.find("s1", message_id=accepted.message_id, wait=True)
        assert answer.text == f"{result} {failed}"


async def test_an_answer_has_to_be_given(make_runner: MakeRunner) -> None:
    async with served(make_runner(asking)) as gateway, Client(gateway.address) as client:
        (wait,) = (await client.send("s1", "Rome")).waits
        with pytest.raises(RequestInvalid):
            await client.answer("s1", wait)


async def test_a_running_answer_is_stopped(make_runner: MakeRunner) -> None:
    gate = Gate()
    async with served(make_runner(gate.agent)) as gateway, Client(gateway.address) as client:
        waiting = asyncio.create_task(client.send("s1", "hi", id="m1"))
        await soon(gate.began.wait())
        (running,) = (await client.sessions.get("s1")).running
        stopped = await client.cancel("s1", running)
        assert stopped.end is not None
        assert (stopped.state, stopped.end.reason) == ("ended", "cancelled")
        answer = await soon(waiting)
        assert answer.end == stopped.end
        assert (await client.cancel("s1", running)).end == stopped.end
        with pytest.raises(InvocationMissing):
            await client.cancel("s1", "invocation-none")


async def test_an_answer_is_made_anew(make_runner: MakeRunner) -> None:
    made = []

    @agent
    async def counting() -> str:
        made.append(1)
        return f"answer {len(made)}"

    async with served(make_runner(counting)) as gateway, Client(gateway.address) as client:
        first = await client.send("s1", "hi")
        assert first.invocation_id is not None
        second = await client.regenerate("s1", first.invocation_id)
        assert (first.text, second.text) == ("answer 1", "answer 2")
        assert second.invocation_id is not None
        begun = await client.regenerate("s1", second.invocation_id, wait=False)
        assert begun.state == "running"
        third = await client.find("s1", message_id=begun.message_id, wait=True)
        assert third.text == "answer 3"
        assert [event.text for event in await client.sessions.last_events("s1", 20) if event.text] == ["hi", "answer 3"]
        with pytest.raises(InvocationMissing):
            await client.regenerate("s1", first.invocation_id)


async def test_an_answer_that_failed_is_an_answer(make_runner: MakeRunner) -> None:
    async with served(make_runner(failing)) as gateway, Client(gateway.address) as client:
        answer = await client.send("s1", "hi")
        assert answer.end is not None
        assert answer.error is not None
        assert (answer.end.reason, answer.error.code) == ("failed", "agent.failed")


async def test_what_goes_wrong_is_what_the_runner_would_raise(make_runner: MakeRunner) -> None:
    gate = Gate()
    config = RunConfig(limits=Limits(queue=1, message_bytes=200))
    async with served(make_runner(gate.agent, config=config)) as gateway, Client(gateway.address) as client:
        with pytest.raises(EmptyMessage) as empty:
            await client.send("s1", " ")
        assert (empty.value.problem, empty.value.fix) == ("The message is empty.", "Send text, a file, data or a tool result.")
        assert "request's id" in empty.value.__notes__[0]
        with pytest.raises(MessageTooLarge):
            await client.send("s1", "x" * 201)
        with pytest.raises(SessionMissing):
            await client.find("s1", message_id="never")
        with pytest.raises(RequestInvalid) as invalid:
            await client.send("s1", "hi", deadline_seconds=-1)
        assert invalid.value.where == ("body", "deadline_seconds")
        with pytest.raises(EmptyMessage):
            [each async for each in client.stream("s1", " ")]
        first = asyncio.create_task(client.send("s1", "one"))
        await soon(gate.began.wait())
        with pytest.raises(SessionBusy):
            await client.send("s1", "two", when_busy="reject")
        await client.send("s1", "two", wait=False)
        with pytest.raises(QueueFull):
            await client.send("s1", "three")
        gate.go.set()
        assert (await soon(first)).text == "answer to one"


async def test_keys_and_users(make_runner: MakeRunner) -> None:
    runner = make_runner(echo)
    ann, both = await key(runner, user="ann"), await key(runner, acts_for_users=True)
    async with served(runner, WITH_KEYS) as gateway:
        url = gateway.address
        async with Client(url, key=f"{ann}\n") as of_ann, Client(url, key=both, user="bob") as of_bob:
            await of_ann.send("s1", "I am Ann")
            await of_bob.send("s1", "I am Bob")
            again = of_bob.for_user("ann")
            assert (await anext(again.sessions.events("s1"))).text == "I am Ann"
            assert (await anext(of_bob.sessions.events("s1"))).text == "I am Bob"
            with pytest.raises(Forbidden):
                await of_ann.for_user("bob").send("s1", "Am I Bob?")
        async with Client(url, key=both) as of_nobody:
            with pytest.raises(RequestInvalid, match="needs a user"):
                await of_nobody.send("s1", "Who am I?")
        for wrong in (None, "tw_no_key", "x" * 3_000):
            async with Client(url, key=wrong) as stranger:
                with pytest.raises(NotAuthenticated):
                    await stranger.send("s1", "hi")


async def test_who_asks_too_much_waits_as_he_is_told_or_is_told_how_long(make_runner: MakeRunner) -> None:
    limits = GatewayConfig(limits=CallerLimits(requests=2))
    async with served(make_runner(echo), limits) as gateway, Client(gateway.address, patience=0) as client:
        await client.send("s1", "one")
        await client.send("s1", "two")
        with pytest.raises(TooMany) as many:
            await client.send("s1", "three")
        assert 0 < many.value.retry_after <= 60


async def test_an_address_where_nobody_is() -> None:
    async with between(None) as proxy:
        nobody = proxy.address
        async with Client(nobody, patience=0) as client:
            with pytest.raises(Unreached, match="broke off"):
                await client.send("s1", "hi")
    async with Client(nobody) as client:
        with pytest.raises(StoreUnavailable, match=f"The gateway at {nobody} cannot be reached"):
            await client.send("s1", "hi")
        with pytest.raises(Unreached):
            [each async for each in client.stream("s1", "hi")]


async def test_an_address_where_something_else_is(make_runner: MakeRunner) -> None:
    async def website(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 7\r\nConnection: close\r\n\r\nWelcome")
        writer.close()

    server = await asyncio.start_server(website, "127.0.0.1", 0)
    async with server, Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        for asked in (client.send("s1", "hi"), anext(client.stream("s1", "hi")), client.sessions.get("s1")):
            with pytest.raises(NothingHere, match="text/html, which is not a gateway"):
                await asked
    async with served(make_runner(echo)) as gateway, Client(f"{gateway.address}/below") as client:
        with pytest.raises(NothingHere):
            await client.send("s1", "hi")


async def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with between(None) as proxy, served(make_runner(echo)) as gateway:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.address)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        async with Client(gateway.address) as client:
            assert (await client.send("s1", "hi")).state == "ended"
        assert proxy.made == 0
        async with Client("http://gateway.test", patience=0) as client:
            with pytest.raises(Unreached):
                await client.send("s1", "hi")
        assert proxy.made == 1


async def test_programs_without_a_loop(make_runner: MakeRunner) -> None:
    """Threads share a client, and its connections."""
    async with served(make_runner(echo)) as gateway:

        def program() -> None:
            client = Client(gateway.address)
            texts: list[str] = []

            def one(number: int) -> None:
                texts.append(client.run_sync(client.send(f"s{number}", f"I am {number}")).text)

            threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(texts) == [f"thinking\nYou said I am {number}" for number in range(4)]
            *events, answer = client.run_sync(client.stream("s1", "more"))
            assert isinstance(answer, Answer)
            assert [event.text for event in events] == ["more", "thinking", "You said more"]
            assert {row.id for row in client.run_sync(client.sessions.list())} == {f"s{number}" for number in range(4)}
            with pytest.raises(SessionMissing):
                client.run_sync(client.sessions.get("none"))
            client.run_sync(client.close())

        await asyncio.to_thread(program)
        async with Client(gateway.address) as client:
            with pytest.raises(ConfigError, match="inside an event loop"):
                client.run_sync(client.send("s1", "hi"))


async def test_one_client_in_two_loops(make_runner: MakeRunner) -> None:
    async with served(make_runner(echo)) as gateway, Client(gateway.address) as client:
        assert (await client.send("s1", "here")).state == "ended"
        there = await asyncio.to_thread(asyncio.run, client.send("s1", "there"))
        assert there.text == "thinking\nYou said there"
        assert (await client.send("s1", "here again")).state == "ended"
