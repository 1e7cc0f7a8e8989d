"""The front door with the Model Context Protocol's own client over real sockets, in its newest version and with a handshake."""

import asyncio

import pytest
from mcp.shared.exceptions import MCPError
from mcp_client_play import MODES, client_of, refusal, structured, talking, texts
from mcp_types import ResourceLink
from runner_play import Gate, soon

from turnwise import AgentContext, LlmAgent, agent
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.function import tool

pytestmark = pytest.mark.parametrize("mode", MODES)
VERSIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


@agent(patterns=["order"])
async def orders(context: AgentContext) -> str:
    number = (await context.ask("Which number does it have?")).text
    return f"Order {number} is on its way."


@agent(patterns=["fail"])
def failing() -> str:
    raise ValueError("a secret of the house")


@agent(children=[orders, failing])
def desk(message: str) -> str:
    return f"You said {message}"


async def test_what_there_is(mode: str) -> None:
    async with talking(desk, mode) as talk:
        assert talk.client.protocol_version == VERSIONS[mode]
        info = talk.client.server_info
        assert info is not None
        assert (info.name, info.title) == ("turnwise", "app")
        assert "`ask`" in (talk.client.instructions or "")
        tools = {each.name: each for each in (await talk.client.list_tools()).tools}
        assert [*tools] == ["ask", "select", "explain", "recall"]
        for each in tools.values():
            assert each.description
            assert each.input_schema["additionalProperties"] is False
            assert all(field["description"] for field in each.input_schema["properties"].values())
            assert "null" not in str(each.input_schema)
            assert each.output_schema is not None
        assert tools["ask"].input_schema["required"] == ["message"]
        hints = {name: each.annotations and each.annotations.read_only_hint for name, each in tools.items()}
        assert hints == {"ask": False, "select": True, "explain": True, "recall": True}
        templates = [each.uri_template for each in (await talk.client.list_resource_templates()).resource_templates]
        assert templates == [
            "turnwise://sessions/{session}{?before}",
            "turnwise://sessions/{session}/artifacts/{name}{?version}",
            "turnwise://memory",
        ]


async def test_a_message_and_its_answer(mode: str) -> None:
    async with talking(desk, mode) as talk:
        result = await talk.call("ask", message="hello")
        answer = structured(result)
        assert not result.is_error
        assert texts(result) == ["You said hello", f"[session: {answer['session']}]"]
        assert answer.pop("session").startswith("session-")
        assert answer.pop("message_id").startswith("message-")
        assert answer.pop("invocation_id").startswith("invocation-")
        assert answer == {
            "state": "completed",
            "text": "You said hello",
            "agent": "desk",
            "reason": "Nothing pointed to another agent, so desk takes it.",
            "waits": [],
            "artifacts": [],
        }


async def test_the_path_may_end_with_a_slash(mode: str) -> None:
    async with talking(desk, mode) as talk, client_of(talk.gateway.address, mode, path="/mcp/") as client:
        assert structured(await client.call_tool("ask", {"message": "hello"}))["text"] == "You said hello"


async def test_a_conversation_goes_on_with_its_session(mode: str) -> None:
    async with talking(desk, mode) as talk:
        asked = await talk.ask("where is my order?", session="s")
        (wait,) = asked["waits"]
        assert (asked["state"], asked["agent"], asked["text"]) == ("waiting", "orders", "Which number does it have?")
        assert (wait["kind"], wait["agent"], wait["text"]) == ("reply", "orders", "Which number does it have?")
        result = await talk.call("ask", message="1001", session="s")
        assert structured(result)["text"] == "Order 1001 is on its way."
        assert structured(result)["invocation_id"] == asked["invocation_id"]
        assert texts(result)[1] == "[session: s]"


async def test_exactly_that_question_is_answered_once(mode: str) -> None:
    async with talking(desk, mode) as talk:
        result = await talk.call("ask", message="where is my order?", session="s")
        call_id = structured(result)["waits"][0]["call_id"]
        assert texts(result)[1] == f"[session: s; orders waits for a reply, answer_to: {call_id}]"
        other = await talk.ask("hello", session="s", agent="desk")
        assert other["text"] == "You said hello"
        first = await talk.ask("1001", session="s", answer_to=call_id)
        again = await talk.ask("1002", session="s", answer_to=call_id)
        assert first["text"] == "Order 1001 is on its way."
        assert again == first
        late = await talk.call("ask", message="1003", session="s", answer_to=call_id, message_id="another")
        assert refusal(late)["code"] == "message.unknown_tool_call"


@pytest.mark.parametrize("approved", [True, False])
async def test_a_person_says_whether_a_tool_may_be_called(mode: str, approved: bool) -> None:
    paid = []

    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pays."""
        paid.append(amount)
        return "paid"

    teller = LlmAgent("teller", model=ScriptedModel(calls("pay", {"amount": 30}), "That is it."), tools=[pay])
    async with talking(teller, mode) as talk:
        (wait,) = (await talk.ask("pay 30", session="s"))["waits"]
        assert (wait["kind"], wait["tool"], wait["arguments"]) == ("confirmation", "pay", {"amount": 30})
        refused = await talk.call("ask", message="yes", session="s", answer_to=wait["call_id"])
        assert refusal(refused)["where"] == ["arguments", "approved"]
        assert paid == []
        answer = await talk.ask("As it was said.", session="s", answer_to=wait["call_id"], approved=approved)
        assert (answer["state"], answer["text"]) == ("completed", "That is it.")
        assert paid == ([30] if approved else [])


async def test_what_a_tool_gave_later_is_told_by_who_may(mode: str) -> None:
    @tool(later=True)
    def order() -> str:
        """Orders something."""
        return "under way"

    buyer = LlmAgent("buyer", model=ScriptedModel(calls("order", {}), "It came."), tools=[order])
    async with talking(buyer, mode) as talk:
        asked = await talk.ask("buy it", session="s")
        (wait,) = asked["waits"]
        assert (asked["state"], wait["kind"], wait["tool"]) == ("waiting", "tool_result", "order")
        answer = await talk.ask('{"parcel": 7}', session="s", answer_to=wait["call_id"])
        assert answer["text"] == "It came."
        events = await talk.runner.sessions.events(talk.runner.key("local", "s"))
        results = [part.result for event in events if event.content for part in event.content.tool_results]
        assert {"parcel": 7} in results


async def test_the_same_message_id_is_the_same_message(mode: str) -> None:
    heard = []

    @agent
    def once(message: str) -> str:
        heard.append(message)
        return f"You said {message}"

    async with talking(once, mode) as talk:
        answers = [await talk.ask("hello", message_id="m") for _ in range(2)]
        assert answers[0] == answers[1]
        named = [await talk.ask("hello", message_id="m", session="s") for _ in range(2)]
        assert named[0] == named[1]
        assert named[0]["session"] == "s" != answers[0]["session"]
        assert heard == ["hello", "hello"]


async def test_an_agent_is_asked_by_name(mode: str) -> None:
    async with talking(desk, mode) as talk:
        assert (await talk.ask("hello", agent="orders"))["agent"] == "orders"
        missing = refusal(await talk.call("ask", message="hello", agent="nobody"))
        assert (missing["code"], missing["where"]) == ("request.nothing_here", ["arguments", "agent"])


async def test_who_would_answer_is_told_and_nothing_is_stored(mode: str) -> None:
    async with talking(desk, mode) as talk:
        result = await talk.call("select", message="my order")
        decision = structured(result)
        assert (decision["agent"], decision["outcome"]) == ("orders", "chosen")
        assert decision["reason"] in texts(result)[0]
        assert any(each["selector"] == "patterns" and each["outcome"] == "chosen" for each in decision["opinions"])
        assert (await talk.client.list_resources()).resources == []
        await talk.ask("where is my order?", session="s")
        assert structured(await talk.call("select", message="1001", session="s"))["agent"] == "orders"


async def test_why_somebody_answered(mode: str) -> None:
    async with talking(desk, mode) as talk:
        await talk.ask("where is my order?", session="s", message_id="first")
        await talk.ask("hello", session="s", agent="desk")
        assert structured(await talk.call("explain", session="s"))["agent"] == "desk"
        first = structured(await talk.call("explain", session="s", message_id="first"))
        assert (first["agent"], first["session"]) == ("orders", "s")
        assert "matches a pattern of orders" in first["reason"]
        for arguments in ({"session": "other"}, {"session": "s", "message_id": "other"}):
            assert refusal(await talk.call("explain", **arguments))["code"].startswith("session.")


async def test_the_newest_decision_is_found_behind_many_events(mode: str) -> None:
    @agent
    async def wordy(context: AgentContext) -> None:
        for number in range(230):
            await context.say(str(number))

    async with talking(wordy, mode) as talk:
        await talk.ask("go", session="s")
        assert structured(await talk.call("explain", session="s"))["agent"] == "wordy"


async def test_a_failed_answer_says_so_without_the_cause(mode: str) -> None:
    async with talking(desk, mode) as talk:
        result = await talk.call("ask", message="fail", session="s")
        answer = structured(result)
        assert result.is_error
        assert (answer["state"], answer["error"]["code"]) == ("failed", "agent.failed")
        assert (await talk.ask("hello", session="s"))["text"] == "You said hello"


async def test_files_are_links_that_can_be_read(mode: str) -> None:
    @agent
    async def writer(context: AgentContext) -> str:
        await context.artifacts.save("a plan/ü.txt", b"go", mime_type="text/plain")
        return "Here it is."

    async with talking(writer, mode, artifacts=InMemoryArtifactStore()) as talk:
        result = await talk.call("ask", message="write", session="s")
        (link,) = (each for each in result.content if isinstance(each, ResourceLink))
        (kept,) = structured(result)["artifacts"]
        assert (link.name, link.uri) == ("a plan/ü.txt", kept["uri"])
        assert kept["uri"] == "turnwise://sessions/s/artifacts/a%20plan%2F%C3%BC.txt?version=1"
        (read,) = (await talk.client.read_resource(link.uri)).contents
        assert (read.mime_type, read.model_dump()["text"]) == ("text/plain", "go")


async def test_whoever_wants_to_hears_how_it_comes_along(mode: str) -> None:
    heard_it = asyncio.Event()

    @agent
    async def slow(context: AgentContext) -> str:
        await context.say("I look for it.")
        async with context.stream() as out:
            for piece in ("It ", "is ", "x" * 120):
                await out.write(piece)
        await heard_it.wait()
        return "Here it is."

    async with talking(slow, mode) as talk:
        heard = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append((progress, message))
            if message and "xxx" in message:
                heard_it.set()

        result = await soon(talk.client.call_tool("ask", {"message": "go"}, progress_callback=hear))
        lines = [line for _, line in heard]
        assert lines[0] == "slow: Nothing pointed to another agent, so slow takes it."
        assert lines[1] == "slow: I look for it."
        assert lines[-1] == "slow: Here it is."
        assert f"slow: It is {'x' * 120}" in lines
        assert [number for number, _ in heard] == [*range(1, len(heard) + 1)]
        assert structured(result)["text"].endswith("Here it is.")


async def test_a_client_that_leaves_does_not_stop_the_answer(mode: str) -> None:
    gate = Gate()
    async with talking(gate.agent, mode) as talk:
        async with client_of(talk.gateway.address, mode, read_timeout_seconds=0.2) as hasty:
            with pytest.raises(MCPError, match="imed out"):
                await hasty.call_tool("ask", {"message": "go", "session": "s", "message_id": "m"})
        await soon(gate.began.wait())
        gate.go.set()
        assert (await soon(talk.ask("go", session="s", message_id="m")))["text"] == "answer to go"
