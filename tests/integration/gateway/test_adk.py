"""Conversations as ADK's clients have them, over real sockets."""

import asyncio
import json
from typing import Any

import pytest
from adk_play import USER, adk, calls_in, given, message, read, text_of
from runner_play import Fails, Gate, soon

from turnwise import AgentContext, LlmAgent, SqlSessionStore, agent, tool
from turnwise.facts.errors import StoreFull
from turnwise.facts.gateway import AdkConfig, GatewayConfig, Protocols
from turnwise.facts.limits import Limits, RunConfig
from turnwise.testing.models import ScriptedModel, calls


@agent(description="Looks after orders.", patterns=["order"])
async def orders(message: str, context: AgentContext) -> str:
    context.state["order"] = 7
    await context.artifacts.save("label.txt", b"To Bonn", mime_type="text/plain")
    return "It is on its way."


@agent(patterns=["pass"])
async def clerk(context: AgentContext) -> None:
    await context.say("One moment.")
    await context.transfer("orders")


@agent(patterns=["which"])
async def asker(context: AgentContext) -> str:
    return f"You said {(await context.ask('Which one?')).text}."


@agent(patterns=["break"])
async def broken(message: str) -> str:
    raise ValueError("as asked")


@agent(children=[orders, clerk, asker, broken])
async def desk(message: str, context: AgentContext) -> str:
    return f"{message}, {context.state.get('seat')}, {dict(context.message_context.attributes)}"


async def test_a_message_and_its_answer() -> None:
    async with adk(desk) as client:
        assert read(await client.ask("GET", "/list-apps", params={"relative_path": "./"})) == ["app"]
        made = read(await client.ask("POST", f"/apps/app/users/{USER}/sessions", json={}))
        assert (made["appName"], made["userId"], made["state"], made["events"]) == ("app", USER, {}, [])
        (answer,) = await client.run("hello", session=made["id"])
        assert (answer["author"], answer["content"]["role"], text_of(answer)) == ("desk", "model", "hello, None, {}")
        behind = answer["customMetadata"]["turnwise"]
        assert (behind["agent"], bool(behind["reason"])) == ("desk", True)
        session = await client.session(made["id"])
    asked, told = session["events"]
    assert (asked["author"], asked["content"]) == ("user", {"parts": [{"text": "hello"}], "role": "user"})
    assert told == answer
    assert asked["invocationId"] == told["invocationId"]
    assert session["lastUpdateTime"] >= told["timestamp"] >= asked["timestamp"]


async def test_pieces_and_the_whole_share_an_id() -> None:
    writer = LlmAgent("writer", model=ScriptedModel("What a long answer.", "What a long answer."))
    async with adk(writer) as client:
        await client.begin()
        *pieces, whole = await client.stream("write")
        assert {(piece["id"], piece.get("partial")) for piece in pieces} == {(whole["id"], True)}
        assert text_of(whole) == "What a long answer."
        assert len(pieces) > 1
        assert text_of(whole).startswith(text_of(*pieces))
        assert "partial" not in whole
        assert whole["usageMetadata"]["totalTokenCount"] >= 0
        (again,) = await client.stream("write", streaming=False)
        assert text_of(again) == "What a long answer."


async def test_what_looks_like_the_end_of_a_line_ends_none() -> None:
    """ADK's clients read a stream line by line, and Python knows more ends of lines than a stream has."""
    odd = "one\u2028two\u2029three\x85\r\n\ndata: {}\n\nfour"

    @agent
    async def poet(context: AgentContext) -> str:
        return odd

    async with adk(poet) as client:
        await client.begin()
        body = message("write")
        async with client.gateway.stream("POST", "/adk/run_sse", json=body) as answer:
            lines = [line async for line in answer.aiter_lines() if line]
        assert [text_of(json.loads(line.removeprefix("data: "))) for line in lines] == [odd]


async def test_hand_overs_state_and_files_are_told() -> None:
    async with adk(desk) as client:
        await client.begin()
        said, passed, done = await client.stream("pass it on")
        assert (said["author"], text_of(said)) == ("clerk", "One moment.")
        assert (passed["author"], passed["actions"]["transferToAgent"]) == ("clerk", "orders")
        assert (done["author"], text_of(done)) == ("orders", "It is on its way.")
        assert (done["actions"]["stateDelta"], done["actions"]["artifactDelta"]) == ({"order": 7}, {"label.txt": 0})
        assert (await client.session())["state"] == {"order": 7}


async def test_both_spellings_are_understood() -> None:
    async with adk(desk) as client:
        await client.begin()
        part = {"inline_data": {"data": "aGk", "mime_type": "text/plain", "display_name": "a.txt"}}
        body = {
            "user_id": USER,
            "session_id": "s",
            "new_message": {"parts": [{"text": "hello"}, part]},
            "custom_metadata": {"customer": "C-17"},
            "service_tier": "x",
        }
        (answer,) = read(await client.ask("POST", "/run", json=body))
        assert text_of(answer) == "hello, None, {'customer': 'C-17'}"
        asked = (await client.session())["events"][0]
    shown = asked["content"]["parts"][1]
    held = shown.get("inlineData") or shown["fileData"]
    assert (held["mimeType"], held["displayName"]) == ("text/plain", "a.txt")


async def test_state_comes_with_a_message() -> None:
    async with adk(desk) as client:
        await client.begin(language="de")
        (answer,) = await client.run("hello", stateDelta={"seat": 3, "language": None})
        assert text_of(answer) == "hello, 3, {}"
        session = await client.session()
        assert session["state"] == {"seat": 3}
        assert session["events"][0]["actions"]["stateDelta"] == {"seat": 3, "language": None}


async def test_an_invocation_is_gone_on_with() -> None:
    async with adk(desk) as client:
        await client.begin()
        (asked,) = await client.run("which")
        (done,) = await client.run("blue", invocationId=asked["invocationId"])
        assert (text_of(done), done["invocationId"]) == ("You said blue.", asked["invocationId"])
        # Without a message it is read on.
        again = await client.run(invocationId=asked["invocationId"])
        assert again == [asked, done]
        refused = await client.ask("POST", "/run", json=message("red", invocationId=asked["invocationId"]))
        assert (refused.status_code, refused.json()["code"]) == (409, "message.unknown_tool_call")


@pytest.mark.parametrize(
    ("response", "called"),
    [
        ({"confirmed": True, "payload": {"order": 7}}, True),
        ({"response": '{"confirmed": true}'}, True),
        ({"confirmed": False}, False),
        ({"response": "no json"}, False),
        ({"confirmed": "true"}, False),
        ({}, False),
    ],
)
async def test_leave_for_a_call(response: dict[str, Any], called: bool) -> None:
    """A42"""
    done = []

    @tool(confirm=True)
    def refund(order: int) -> str:
        done.append(order)
        return "refunded"

    payer = LlmAgent("payer", model=ScriptedModel(calls("refund", {"order": 7}), "All done."), tools=[refund])
    async with adk(payer) as client:
        await client.begin()
        made, asked = await client.stream("refund")
        assert "longRunningToolIds" not in made
        wanted = calls_in(asked)["adk_request_confirmation"]
        original = made["content"]["parts"][0]["functionCall"]
        assert wanted["args"]["originalFunctionCall"] == original
        assert wanted["args"]["toolConfirmation"] == {"hint": text_of(asked), "confirmed": False}
        assert asked["actions"]["requestedToolConfirmations"][original["id"]]["confirmed"] is False
        told = await client.run(given(wanted["id"], response, "adk_request_confirmation"))
        assert text_of(*told) == "All done."
        session = await client.session()
    (answer,) = [event for event in session["events"] if event["author"] == "user"][1:]
    shown = answer["content"]["parts"][0]["functionResponse"]
    assert shown == {"id": wanted["id"], "name": "adk_request_confirmation", "response": {"confirmed": called}}
    assert done == [7] * called


async def test_a_tool_that_takes_long() -> None:
    """A6: its call is told once more when it is known that its result is to come."""

    @tool(later=True)
    def pay(amount: int) -> str:
        return "begun"

    payer = LlmAgent("payer", model=ScriptedModel(calls("pay", {"amount": 3}), "Paid."), tools=[pay])
    async with adk(payer) as client:
        await client.begin()
        events = await client.run("pay")
        call = calls_in(*events)["pay"]
        assert call["args"] == {"amount": 3}
        gave, done = await client.run(given(call["id"], {"status": "paid"}, "pay"))
        response = gave["content"]["parts"][0]["functionResponse"]
        assert response == {"id": call["id"], "name": "pay", "response": {"status": "paid"}}
        assert text_of(done) == "Paid."
        again = await client.ask("POST", "/run", json=message(given(call["id"], {}, "pay")))
        assert (again.status_code, again.json()["code"]) == (409, "message.unknown_tool_call")


async def test_what_fails_is_an_event() -> None:
    async with adk(desk) as client:
        await client.begin()
        for events in (await client.run("break"), await client.stream("break")):
            assert [event["errorCode"] for event in events] == ["agent.failed"]
            assert "as asked" in events[0]["errorMessage"]
        assert [event.get("errorCode") for event in (await client.session())["events"]] == [None, "agent.failed"] * 2


async def test_a_limit_is_told_as_an_error() -> None:
    config = RunConfig(limits=Limits(invocation_seconds=0.2, grace_seconds=0))
    async with adk(Gate().agent, config=config) as client:
        await client.begin()
        events = await soon(client.run("hm"))
        assert [event["errorCode"].partition(":")[0] for event in events] == ["limit"]


async def test_the_answer_goes_on_when_nobody_reads() -> None:
    """Unlike the ADK's server, which stops it."""
    gate = Gate()
    async with adk(gate.agent) as client:
        await client.begin()
        reading = asyncio.create_task(client.run("hi"))
        await soon(gate.began.wait())
        reading.cancel()
        await asyncio.wait({reading})
        gate.go.set()
        await client.runner.idle()
        assert text_of(*(await client.session())["events"]) == "hianswer to hi"


async def test_a_message_with_a_key_is_one_message() -> None:
    async with adk(desk) as client:
        await client.begin()
        keyed = client._replace(headers={"Idempotency-Key": "k-1"})
        first, again = await keyed.run("hello"), await keyed.run("hello")
        assert first == again
        assert len((await client.session())["events"]) == 2


async def test_when_the_process_is_stopped_the_reader_is_told() -> None:
    gate = Gate()
    async with adk(gate.agent) as client:
        await client.begin()
        reading = asyncio.create_task(client.stream("hi"))
        await soon(gate.began.wait())
        client.gateway.front.closing.set()
        (told,) = await soon(reading)
        assert told["error"].startswith("request.closing: ")
        assert told["error_details"]["error_type"] == "request.closing"
        gate.go.set()


async def test_a_log_that_breaks_off_is_told_in_the_stream() -> None:
    """What has begun cannot be another status."""
    full = StoreFull("There is no room.", fix="Make some.")
    store = Fails(SqlSessionStore("sqlite://"), "append", full, when=lambda _, events, **__: events[0].text == "Two.")

    @agent
    async def talker(context: AgentContext) -> str:
        await context.say("One.")
        return "Two."

    async with adk(talker, store=store) as client:
        await client.begin()
        one, told = await soon(client.stream("hi"))
        assert (text_of(one), told["error"]) == ("One.", "store.full: There is no room. Make some.")
        assert (await client.ask("POST", "/run", json=message("hi"))).status_code == 507


async def test_what_is_not_there_is_said_before_a_stream_begins() -> None:
    async with adk(desk) as client:
        for path in ("/run", "/run_sse"):
            for wrong in ({"sessionId": "none"}, {"appName": "other"}, {"invocationId": "none", "newMessage": None}):
                answer = await client.ask("POST", path, json={**message("hi"), **wrong})
                assert (answer.status_code, [*answer.json()]) == (404, ["detail", "code"]), wrong


PARTS: dict[str, Any] = {
    "no base64": {"inlineData": {"data": "ü", "mimeType": "text/plain"}},
    "half a base64": {"inlineData": {"data": "aGkaa", "mimeType": "text/plain"}},
    "a file elsewhere": {"fileData": {"fileUri": "gs://x/y", "mimeType": "text/plain"}},
    "a call": {"functionCall": {"name": "f"}},
    "code": {"executableCode": {"code": "1", "language": "PYTHON"}},
    "a result of nothing": {"functionResponse": {"name": "f", "response": {}}},
    "nothing": {},
}


@pytest.mark.parametrize("case", PARTS)
async def test_parts_that_nobody_can_read(case: str) -> None:
    async with adk(desk) as client:
        await client.begin()
        body = {**message(), "newMessage": {"parts": [{"text": "hi"}, PARTS[case]]}}
        answer = await client.ask("POST", "/run", json=body)
        (detail,) = answer.json()["detail"]
        assert (answer.status_code, detail["loc"][:4]) == (422, ["body", "newMessage", "parts", 1])
        assert (await client.session())["events"] == []


async def test_no_message() -> None:
    async with adk(desk) as client:
        await client.begin()
        bodies: tuple[dict[str, Any], ...] = ({}, {"stateDelta": {"a": 1}, "invocationId": "i"}, {"newMessage": {"parts": []}})
        for body in bodies:
            answer = await client.ask("POST", "/run", json={**message(), **body})
            assert (answer.status_code, answer.json()["detail"][0]["loc"]) == (422, ["body", "newMessage"])
        blank = await client.ask("POST", "/run", json=message(" "))
        assert (blank.status_code, blank.json()["code"]) == (422, "message.empty")


async def test_switched_off_there_is_nothing() -> None:
    off = GatewayConfig(protocols=Protocols(adk=AdkConfig(on=False)))
    async with adk(desk, off) as client:
        for path in ("/list-apps", "/health", "/dev-ui/"):
            answer = await client.ask("GET", path)
            assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
