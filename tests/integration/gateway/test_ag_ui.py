"""AG-UI with its real client, which verifies the order of all that it is told."""

import asyncio
import json
from typing import Any

from ag_ui_play import INTERRUPTS, desk, fronting, needs_client, run
from ag_ui_verify import Client
from gateway_play import key_for
from runner_play import Gate, soon

from turnwise import AgentContext, LlmAgent, RunConfig, agent
from turnwise.access.rights import RIGHTS
from turnwise.agents.composite import Parallel
from turnwise.facts.content import ThinkingPart, text_content
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.facts.limits import Limits
from turnwise.facts.usage import Usage
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict
from turnwise.ports.model import ModelReply
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.function import tool

pytestmark = needs_client

MAP: dict[str, Any] = {
    "name": "show_map",
    "description": "Shows a place to the user.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
}


async def test_a_conversation_of_several_turns() -> None:
    async with fronting(desk) as front:
        first, second, third = await front.play("hello", "order 1001", "hello again")
        assert first.texts == ["hello", "You said: hello."]
        assert third.texts == [*first.texts, "order 1001", "Order 1001 is on its way.", "hello again", "You said: hello again."]
        assert first.types[0] == "RUN_STARTED"
        assert first.types[-1] == "RUN_FINISHED"
        assert [message["name"] for message in third.messages if message["role"] == "assistant"] == ["desk", "orders", "desk"]
        assert (second.result["agent"], second.result["session_id"]) == ("orders", "t")
        (selection,) = second.custom("selection")
        assert (selection["agent"], selection["reason"]) == ("orders", second.result["reason"])
        assert await front.log() == [
            ("user", "hello"),
            ("desk", "You said: hello."),
            ("user", "order 1001"),
            ("orders", "Order 1001 is on its way."),
            ("user", "hello again"),
            ("desk", "You said: hello again."),
        ]


async def test_a_transfer() -> None:
    """A36. Each agent that has the floor is a step, and a subagent."""
    async with fronting(desk) as front:
        ran = await front.one("hand over")
        assert ran.texts == ["hand over", "One moment.", "Order 1001 is on its way."]
        assert [event["stepName"] for event in ran.of("STEP_STARTED")] == ["giver", "orders"]
        started = ran.of("SUBAGENT_STARTED")
        assert [(event["name"], event.get("description")) for event in started] == [
            ("giver", None),
            ("orders", "Looks after orders."),
        ]
        ids = [event["subagentRunId"] for event in started]
        assert [message.get("subagentRunId") for message in ran.messages] == [None, *ids]


async def test_the_front_ends_own_tools() -> None:
    """The run ends well with calls that are pending; what they gave comes with the next."""
    two: Any = ["Let me see.", calls("show_map", {"place": "Bonn"}), calls("show_map", {"place": "Rome"})]
    model = ScriptedModel(two, "You see them now.")
    async with fronting(LlmAgent("guide", model=model)) as front:
        asked, answered, after = await front.play(
            {"say": "where?", "options": {"tools": [MAP]}}, {"result": '{"shown": true}'}, {}
        )
        assert asked.pending == [event["toolCallId"] for event in asked.of("TOOL_CALL_START")]
        assert asked.of("RUN_FINISHED")[0]["outcome"] == {"type": "success", "pendingToolCallIds": asked.pending}
        assert [call["function"]["arguments"] for call in asked.messages[1]["toolCalls"]] == [
            '{"place":"Bonn"}',
            '{"place":"Rome"}',
        ]
        assert answered.pending == []
        assert answered.texts[-1] == "You see them now."
        assert [each.result for each in model.requests[1].messages[-1].tool_results] == [{"shown": True}] * 2
        assert [tool.name for tool in model.requests[0].tools] == ["show_map"]
        assert after.failed is None


async def test_an_agents_own_tools() -> None:
    @tool
    async def look(place: str) -> dict[str, str]:
        return {"sky": "clear"}

    model = ScriptedModel(calls("look", {"place": "Oslo"}), "It is clear.")
    async with fronting(LlmAgent("guide", model=model, tools=[look])) as front:
        (ran,) = await front.play("weather?")
        assert ran.pending == []
        assert [(message["role"], message.get("content")) for message in ran.messages] == [
            ("user", "weather?"),
            ("assistant", None),
            ("tool", '{"sky":"clear"}'),
            ("assistant", "It is clear."),
        ]


async def test_a_failure() -> None:
    """What a user reads of it is not what the agent raised; the session goes on."""
    async with fronting(desk, GatewayConfig(auth=AuthConfig())) as front:
        key = await key_for(front.runner)
        failed, after = await front.play("please fail", "hello", headers=key)
        assert failed.types[-1] == "RUN_ERROR"
        error = failed.events[-1]
        assert (error["code"], error["message"]) == ("agent.failed", "The agent failed.")
        assert failed.texts == ["please fail", "Let me see."]
        assert after.texts[-1] == "You said: hello."
        # What got no answer, the front end tells again; it is not asked again.
        log = await front.log(user="ann")
        assert [text for author, text in log if author == "user"] == ["please fail", "hello"]


async def test_a_refusal_is_no_run() -> None:
    async with fronting(desk, GatewayConfig(auth=AuthConfig())) as front:
        refused = await front.one("hello")
        assert (refused.status, refused.events) == (401, [])
        assert refused.payload["type"] == "RUN_ERROR"
        assert refused.payload["code"] == "access.unauthenticated"
        narrow = await key_for(front.runner, user="ann", scopes=[each for each in RIGHTS["user"] if each != "sessions:read"])
        assert (await front.one("hello", headers=narrow)).payload["code"] == "access.forbidden"


async def test_state_goes_both_ways() -> None:
    """A24. What the front end wrote is there before the message is answered."""

    @agent
    async def counting(message: str, context: AgentContext) -> str:
        count: Any = context.state.get("count", 0)
        context.state["count"] = count + 1
        context.state["user:seen"] = True
        return f"{context.state.get('name')}: {count}"

    async with fronting(counting) as front:
        first, second, third = await front.play(
            {"say": "hi", "state": {"name": "Ann", "a/b": [1]}}, "again", {"say": "more", "state": {"name": "Bob", "count": 10}}
        )
        assert (first.texts[-1], second.texts[-1], third.texts[-1]) == ("Ann: 0", "Ann: 1", "Bob: 10")
        assert first.state == {"name": "Ann", "a/b": [1], "count": 1, "user:seen": True}
        assert third.state == {**first.state, "name": "Bob", "count": 11}
        # Whoever comes new to the thread is told all of it, and what he does not say does not go away.
        other = await front.one("hello")
        assert other.state == {**third.state, "count": 12}
        gone = await front.one({"say": "hello", "state": {"a/b": None}})
        assert "a/b" not in gone.state
        # It can be written without a word.
        (quiet,) = await front.play({"state": {"name": "Cid"}})
        assert quiet.state["name"] == "Cid"
        assert (await front.one("who?")).texts[-1] == "Cid: 13"


async def test_what_all_users_share_is_not_written_back() -> None:
    """A24. A client sends back all that it was told, and somebody else may have written since."""

    @agent
    async def counting(message: str, context: AgentContext) -> str:
        context.state["app:last"] = message
        return "Kept."

    async with fronting(counting, GatewayConfig(auth=AuthConfig())) as front:
        for role in ("operator", "admin"):
            key = await key_for(front.runner, user="ann", role=role)
            (mine,) = await front.play("one", thread=f"{role}-a", headers=key)
            await front.play("two", thread=f"{role}-b", headers=key)
            (back,) = await front.play({"state": mine.state}, thread=f"{role}-a", headers=key)
            assert (mine.state, back.failed, back.state) == ({"app:last": "one"}, None, {"app:last": "two"})


async def test_parallel_agents_speak_at_once() -> None:
    """A41."""
    turn = asyncio.Event()

    @agent
    async def left(message: str, context: AgentContext) -> None:
        async with context.stream() as out:
            await out.write("le")
            await turn.wait()
            await out.write("ft")

    @agent
    async def right(message: str, context: AgentContext) -> None:
        async with context.stream() as out:
            await out.write("ri")
            turn.set()
            await out.write("ght")

    async with fronting(Parallel("both", [left, right])) as front:
        ran = await front.one("go")
        assert sorted(ran.texts) == ["go", "left", "right"]
        assert {event["name"] for event in ran.of("SUBAGENT_STARTED")} >= {"left", "right"}


async def test_thinking_is_for_those_who_keep_the_agents() -> None:
    for rights, count in (({"user": "ann"}, 0), ({"role": "operator", "user": "ann"}, 1)):
        model = ScriptedModel([ThinkingPart(text="hm, well"), "Yes."])
        async with fronting(LlmAgent("root", model=model), GatewayConfig(auth=AuthConfig())) as front:
            ran = await front.one("is it?", headers=await key_for(front.runner, **rights))
            assert [message["content"] for message in ran.messages if message["role"] == "reasoning"] == ["hm, well"] * count
            assert ran.texts[-1] == "Yes."


async def test_what_models_took() -> None:
    usage = Usage(model="scripted:small", input_tokens=10, cached_tokens=4, output_tokens=3)
    async with fronting(LlmAgent("root", model=ScriptedModel(ModelReply(text_content("Yes."), usage, "")))) as front:
        (finished,) = (await front.one("is it?")).of("RUN_FINISHED")
        assert finished["usage"] == [
            {
                "provider": "scripted",
                "model": "small",
                "inputTokens": 10,
                "outputTokens": 3,
                "totalTokens": 13,
                "cachedInputTokens": 4,
            }
        ]


class Prim:
    """Blocks answers and messages that hold a bad word."""

    name = "prim"

    async def check(self, place: str, content: Any, agent: str | None) -> GuardrailVerdict:
        return GuardrailVerdict("block", reason="Not here.") if "bad" in content.text else ALLOW


async def test_what_a_guardrail_blocks() -> None:
    """C13."""
    async with fronting(LlmAgent("root", model=ScriptedModel("a bad word")), guardrails=[Prim()]) as front:
        blocked, refused = await front.play("say it", "bad")
        assert "bad" not in blocked.texts[-1]
        assert len(blocked.texts) == 2
        assert (refused.status, refused.payload["code"]) == (422, "message.blocked")


async def test_an_answer_that_ran_into_a_limit_was_stopped() -> None:
    looping = LlmAgent("root", model=ScriptedModel(*[calls("look") for _ in range(3)]), tools=[tool(_look)])
    async with fronting(looping, config=RunConfig(limits=Limits(steps=2))) as front:
        ran = await front.one("go")
        assert ran.of("RUN_FINISHED")[0]["outcome"] == {"type": "cancelled"}
        assert ran.custom("end")[0]["reason"] == "limit:steps"


async def _look() -> str:
    return "nothing"


async def test_somebody_stops_it() -> None:
    gate = Gate()
    async with fronting(gate.agent) as front:
        running = asyncio.create_task(front.one("hello"))
        await soon(gate.began.wait())
        session = (await front.gateway.get("/api/v1/sessions/t")).json()
        (invocation,) = session["running"]
        await front.gateway.post(f"/api/v1/sessions/t/invocations/{invocation}/cancel")
        ran = await soon(running)
        assert ran.of("RUN_FINISHED")[0]["outcome"] == {"type": "cancelled"}
        assert ran.failed is None


async def test_a_thread_with_a_past_from_elsewhere() -> None:
    messages = [
        {"id": "1", "role": "user", "content": "I am Ann."},
        {"id": "2", "role": "assistant", "content": "Hello Ann."},
        {"id": "3", "role": "user", "content": "Who am I?"},
    ]
    model = ScriptedModel("Ann.")
    async with fronting(LlmAgent("root", model=model)) as front:
        ran = await front.one({"messages": messages})
        assert ran.texts == ["I am Ann.", "Hello Ann.", "Who am I?", "Ann."]
        assert [message.text for message in model.requests[0].messages][:2] == ["I am Ann.", "Hello Ann."]


async def test_a_front_end_that_comes_back_gets_the_conversation() -> None:
    """A run without a message. The open question is told, too, and answered by the next message or as an interrupt."""
    for config, reply, told in ((None, "1002", ["1002"]), (INTERRUPTS, {"resume": "1002"}, [])):
        async with fronting(desk, config) as front:
            await front.play("hello", "my order")
            back, answered = await front.play({}, reply)
            assert back.texts == ["hello", "You said: hello.", "my order", "Which number does it have?"]
            open_ = [] if config is None else ["Which number does it have?"]
            assert [each["message"] for each in back.interrupts] == open_
            assert answered.texts == [*back.texts, *told, "Order 1002 is on its way."]
    async with fronting(desk) as front:
        empty = await front.one({}, thread="new")
        assert (empty.messages, empty.failed) == ([], None)


async def test_what_is_being_answered_is_read_on() -> None:
    gate = Gate()
    async with fronting(gate.agent) as front:
        running = asyncio.create_task(front.one("hello"))
        await soon(gate.began.wait())
        async with front.gateway.stream("POST", "/ag-ui", json=run()) as back:
            told = [each async for each in _told_until_answered(back, gate)]
        assert (await soon(running)).texts == ["hello", "answer to hello"]
        client = Client().take(told)
        assert [message["content"] for message in client.messages] == ["hello", "answer to hello"]


async def _told_until_answered(stream: Any, gate: Gate) -> Any:
    """The events of a stream; the gate opens when the first is there."""
    async for line in stream.aiter_lines():
        if line.startswith("data: "):
            gate.go.set()
            yield json.loads(line[6:])
