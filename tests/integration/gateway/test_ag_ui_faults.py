"""AG-UI over real sockets, with requests that no client makes: sent again, odd, too large, cut off."""

import asyncio
import base64
import json
from typing import Any

import pytest
from ag_ui_play import fronting, run
from ag_ui_verify import Client
from runner_play import Gate, soon

from turnwise import AgentContext, Content, LlmAgent, agent, tool
from turnwise.facts.content import BlobPart, DataPart
from turnwise.facts.gateway import AgUiConfig, GatewayConfig, Protocols
from turnwise.facts.messages import MessageContext
from turnwise.testing.models import ScriptedModel, calls


@agent
async def echo(message: str, context: AgentContext) -> str:
    return f"You said {message}"


def nested(levels: int) -> Any:
    deep: Any = 1
    for _ in range(levels):
        deep = {"a": deep}
    return deep


def ended(wires: list[dict[str, Any]]) -> dict[str, Any]:
    return wires[-1]


async def test_a_run_that_is_sent_again_is_the_same() -> None:
    model = ScriptedModel("Once.")
    async with fronting(LlmAgent("root", model=model)) as front:
        first, again = await front.post(run("hi")), await front.post(run("hi"))
        texts = [Client().take(wires).messages for _, wires in (first, again)]
        assert texts[0] == texts[1]
        assert len(model.requests) == 1
        # To a client that has a part of it, all of it is told as it is.
        half = [{"id": "u0", "role": "user", "content": "hi"}, {**texts[0][0], "content": "On"}]
        _, wires = await front.post(run(*half))
        assert [message["content"] for message in Client(half).take(wires).messages] == ["hi", "Once."]
        assert len(model.requests) == 1


async def test_ids_are_made_where_there_are_none() -> None:
    async with fronting(echo) as front:
        _, wires = await front.post({"messages": [{"id": "1", "role": "user", "content": "hi"}]})
        assert wires[0]["threadId"].startswith("session-")
        assert wires[0]["runId"].startswith("message-")
        assert ended(wires)["runId"] == wires[0]["runId"]
        # Who does not say which version he speaks knows no subagents.
        assert not [wire for wire in wires if "subagentRunId" in wire or wire["type"].startswith("SUBAGENT")]


async def test_what_comes_beside_the_message() -> None:
    seen: list[Any] = []

    @agent
    async def watching(message: Content, context: AgentContext) -> str:
        seen.extend((message, context.message_context))
        return "Seen."

    image = {"type": "image", "source": {"type": "data", "value": base64.b64encode(b"png").decode(), "mimeType": "image/png"}}
    sound = {
        "type": "audio",
        "source": {"type": "url", "value": "data:audio/wav;base64,d2F2"},
        "metadata": {"filename": "a.wav"},
    }
    far = {"type": "document", "source": {"type": "url", "value": "https://example.com/a.pdf"}}
    body = run(
        {"id": "s", "role": "system", "content": "Be short."},
        {"id": "u", "role": "user", "content": [{"type": "text", "text": "see"}, image, sound, far, {"type": "hologram"}]},
        context=[{"description": "Page", "value": "Cart"}],
        forwardedProps={"channel": "web", "user_kind": "guest", "customer": 7},
    )
    async with fronting(watching) as front:
        _, wires = await front.post(body)
        content, context = seen
        assert isinstance(context, MessageContext)
        assert (context.channel, context.user_kind) == ("web", "guest")
        assert context.attributes == {"customer": 7, "context": [{"description": "Page", "value": "Cart"}]}
        wanted, text, *blobs = content.parts
        assert wanted == DataPart(name="instructions", data="Be short.\n\nPage: Cart")
        assert text.text == "see"
        assert blobs == [
            BlobPart(data=b"png", mime_type="image/png"),
            BlobPart(data=b"wav", mime_type="audio/wav", name="a.wav"),
        ]
        # Nothing is fetched: what is elsewhere is left out, and that is said.
        customs = [wire["value"] for wire in wires if wire["type"] == "CUSTOM" and wire["name"] == "turnwise.ignored"]
        assert customs == [{"reason": "Nothing is fetched from elsewhere.", "places": ["messages.1.content.3"]}]


@pytest.mark.parametrize(
    ("status", "code", "body"),
    [
        (422, "request.invalid", {"threadId": "t"}),
        (422, "request.invalid", run({"id": "1", "role": "user"})),
        (422, "request.invalid", run("hi", state=[1])),
        (422, "request.invalid", run("hi", state=nested(300))),
        (413, "message.too_large", run("hi", state=nested(150))),
        (422, "request.invalid", run("hi", forwardedProps=nested(300))),
        (422, "request.invalid", run("hi", tools=[{"name": "f", "description": "", "parameters": nested(300)}])),
        (
            422,
            "request.invalid",
            run({"id": "1", "role": "user", "content": [{"type": "text", "text": "hi", "metadata": nested(300)}]}),
        ),
        (422, "request.invalid", run("hi", runId="\ud800")),
        (422, "message", run("hi", threadId="\0")),
        (422, "message", run("hi", state={"temp:x": 1})),
        (422, "message", run("\ud800")),
        (422, "request.invalid", run("hi", forwardedProps={"agent": 1})),
        (422, "request.invalid", run("hi", forwardedProps={"questions": "never"})),
        (404, "request.nothing_here", run("hi", forwardedProps={"agent": "nobody"})),
        (422, "request.invalid", run("hi", tools=[{"name": "f", "description": "", "parameters": [1]}])),
        (422, "message", run("hi", tools=[{"name": "confirm", "description": ""}])),
        (422, "request.invalid", run("hi", resume=[{"interruptId": "w", "status": "perhaps"}])),
        (422, "request.invalid", run("hi", resume=[{"interruptId": "w", "status": "cancelled"}] * 2)),
        (422, "request.invalid", run(*["hi"] * 10_001)),
        (413, "message.too_large", run("x" * 300_000)),
        (409, "message.unknown_tool_call", run({"id": "1", "role": "tool", "toolCallId": "c", "content": "x"})),
        (
            422,
            "request.invalid",
            run({"id": "1", "role": "user", "content": [{"type": "image", "source": {"type": "url", "value": "https://x"}}]}),
        ),
        (
            422,
            "request.invalid",
            run(
                {
                    "id": "1",
                    "role": "user",
                    "content": [{"type": "image", "source": {"type": "data", "value": "%", "mimeType": "image/png"}}],
                }
            ),
        ),
    ],
)
async def test_what_cannot_be_done_is_refused_before_there_is_a_run(status: int, code: str, body: Any) -> None:
    async with fronting(echo) as front:
        content = json.dumps(body)
        answer = await front.gateway.post("/ag-ui", content=content, headers={"Content-Type": "application/json"})
        error = answer.json()
        assert (answer.status_code, error["type"], error["code"]) == (status, "RUN_ERROR", code)
        assert await front.runner.store.list(front.runner.app, user="local") == ((), None)


async def test_only_server_sent_events_are_told() -> None:
    async with fronting(echo) as front:
        for accept, status in (
            ("application/vnd.ag-ui.event+proto", 422),
            ("application/vnd.ag-ui.event+proto, text/event-stream", 200),
            ("*/*", 200),
        ):
            answer = await front.gateway.post("/ag-ui/", json=run("hi", runId=accept[:40]), headers={"Accept": accept})
            assert answer.status_code == status


async def test_what_nobody_waits_for_does_not_hold_up_a_thread() -> None:
    """A front end sends what its tools gave also when the turn that called them is over."""
    model = ScriptedModel(calls("show_map", {}), "Seen.", "Well.")
    show = {"name": "show_map", "description": "d"}
    async with fronting(LlmAgent("root", model=model)) as front:
        _, wires = await front.post(run("where?", tools=[show]))
        client = Client([{"id": "u0", "role": "user", "content": "where?"}]).take(wires)
        (call_id,) = ended(wires)["outcome"]["pendingToolCallIds"]
        gave = {"id": "g", "role": "tool", "toolCallId": call_id, "content": "x"}
        _, wires = await front.post(run(*client.messages, gave, runId="r2"))
        assert ended(wires)["outcome"] == {"type": "success"}
        more = {"id": "u1", "role": "user", "content": "and now?"}
        _, wires = await front.post(run(*client.messages, gave, more, runId="r3"))
        assert Client().take(wires).messages[0]["content"] == "Well."
        (ignored,) = [wire["value"] for wire in wires if wire.get("name") == "turnwise.ignored"]
        assert ignored["ids"] == [call_id]


async def test_it_goes_on_when_the_client_leaves() -> None:
    gate = Gate()
    async with fronting(gate.agent) as front:
        async with front.gateway.stream("POST", "/ag-ui", json=run("hi")) as stream:
            await soon(gate.began.wait())
            assert stream.status_code == 200
        gate.go.set()
        _, wires = await front.post(run("hi"))
        assert [message["content"] for message in Client().take(wires).messages] == ["answer to hi"]


async def test_all_answers_are_taken_when_the_client_leaves_after_the_first() -> None:
    paid: list[int] = []
    all_paid = asyncio.Event()

    @tool(confirm=True)
    async def pay(amount: int) -> str:
        paid.append(amount)
        if sorted(paid) == [5, 7]:
            all_paid.set()
        return "paid"

    both = [calls("pay", {"amount": 5}), calls("pay", {"amount": 7})]
    async with fronting(LlmAgent("payer", model=ScriptedModel(both, "Done."), tools=[pay])) as front:
        _, wires = await front.post(run("pay"))
        ids = [each["id"] for each in ended(wires)["outcome"]["interrupts"]]
        resume = [{"interruptId": id_, "status": "resolved", "payload": True} for id_ in ids]
        async with front.gateway.stream("POST", "/ag-ui", json=run(runId="r2", resume=resume)) as stream:
            assert stream.status_code == 200
        await soon(all_paid.wait())
        await front.runner.idle()
        assert (await front.log())[-1] == ("payer", "Done.")


async def test_what_is_read_on_says_which_message_it_is() -> None:
    gate = Gate()
    async with fronting(gate.agent) as front:
        running = asyncio.create_task(front.post(run("hi", runId="first")))
        await soon(gate.began.wait())
        async with front.gateway.stream("POST", "/ag-ui", json=run(runId="second")) as back:
            gate.go.set()
            told = [json.loads(line[6:]) async for line in back.aiter_lines() if line.startswith("data: ")]
        _, wires = await soon(running)
        assert [ended(each)["result"]["message_id"] for each in (wires, told)] == ["first", "first"]


async def test_a_process_that_is_being_stopped_says_so() -> None:
    gate = Gate()
    async with fronting(gate.agent) as front:
        running = asyncio.create_task(front.post(run("hi")))
        await soon(gate.began.wait())
        front.gateway.front.closing.set()
        _, wires = await soon(running)
        assert (ended(wires)["type"], ended(wires)["code"]) == ("RUN_ERROR", "request.closing")
        Client().take(wires)
        gate.go.set()


async def test_switched_off_there_is_no_such_path() -> None:
    off = GatewayConfig(protocols=Protocols(ag_ui=AgUiConfig(on=False)))
    async with fronting(echo, off) as front:
        assert (await front.gateway.post("/ag-ui", json=run("hi"))).status_code == 404
