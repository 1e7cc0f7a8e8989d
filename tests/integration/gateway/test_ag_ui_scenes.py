"""AG-UI with its real client, which verifies the order of all that it is told: scenes in which much goes on."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from ag_ui_play import INTERRUPTS, Front, fronting, needs_client
from gateway_play import key_for, served
from runner_play import Crash, Gate, kill, soon

from turnwise import AgentContext, Content, Flow, LlmAgent, Runner, Team, agent
from turnwise.agents.composite import Parallel
from turnwise.facts.content import DataPart
from turnwise.facts.events import Event
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict
from turnwise.selection.conversational import Conversational
from turnwise.testing.models import ScriptedModel, calls

pytestmark = needs_client

MAP = {"name": "show_map", "description": "Shows a place.", "parameters": {"type": "object"}}


async def test_a_flow_tells_its_decisions_and_its_answer() -> None:
    trip = Flow("trip", description="Plans a day.")

    @trip.task
    def weather(request: str) -> str:
        """Look up the weather."""
        return "rain"

    @trip.task(depends_on=["weather"])
    async def plan(weather: str, context: AgentContext) -> str:
        """Write the plan."""
        await context.say("on a task")
        return f"It will {weather}."

    async with fronting(trip) as front:
        ran, back = await front.one("go"), await front.one({})
        assert [each["agent"] for each in ran.custom("selection")] == ["trip", "weather", "plan"]
        assert (ran.failed, ran.texts) == (None, ["go", "It will rain."])
        assert back.texts == ran.texts


async def test_the_members_of_a_team_speak_in_turn() -> None:
    writer, critic = (
        LlmAgent("writer", model=ScriptedModel("A draft. <next>@critic</next>", "A better one.")),
        LlmAgent("critic", model=ScriptedModel("Too long. <next>@writer</next>")),
    )
    async with fronting(Team("desk", [writer, critic], selector=Conversational(lead="writer"))) as front:
        ran = await front.one("write")
        assert [text.strip() for text in ran.texts] == ["write", "A draft.", "Too long.", "A better one."]
        assert [event["name"] for event in ran.of("SUBAGENT_STARTED")] == ["writer", "critic", "writer"]


async def test_two_who_work_side_by_side_both_ask() -> None:
    @agent
    async def left(context: AgentContext) -> str:
        return f"left: {(await context.ask('Left?')).text}"

    @agent
    async def right(context: AgentContext) -> str:
        return f"right: {(await context.ask('Right?')).text}"

    async with fronting(Parallel("both", [left, right]), INTERRUPTS) as front:
        (asked,) = await front.play("go")
        ids = {each["message"]: each["id"] for each in asked.interrupts}
        assert sorted(ids) == ["Left?", "Right?"]
        resume = [
            {"interruptId": ids["Left?"], "status": "resolved", "payload": "l"},
            {"interruptId": ids["Right?"], "status": "resolved", "payload": "r"},
        ]
        answered = await front.one({"messages": asked.messages, "options": {"resume": resume}})
        assert (answered.failed, answered.interrupts) == (None, [])
        assert sorted(answered.texts[-2:]) == ["left: l", "right: r"]


async def test_what_a_guardrail_takes_back_while_it_is_told() -> None:
    """C13."""

    class Prim:
        name = "prim"

        async def check(self, place: str, content: Any, agent: str | None) -> GuardrailVerdict:
            return GuardrailVerdict("block", reason="Not here.") if "bad" in content.text else ALLOW

    @agent
    async def slipping(context: AgentContext) -> None:
        async with context.stream() as out:
            for piece in ("well, ", "a bad ", "word"):
                await out.write(piece)

    async with fronting(slipping, guardrails=[Prim()]) as front:
        ran = await front.one("say it")
        assert (ran.failed, ran.texts) == (None, ["say it", "Not here."])


async def test_answers_of_all_kinds() -> None:
    """Of data alone, of nothing, with letters that are several characters, and very long."""

    @agent
    async def varied(message: str, context: AgentContext) -> AsyncIterator[Event]:
        if message == "data":
            yield context.event(Content(parts=(DataPart(name="x", data={"a": [1]}),)))
        elif message != "nothing":
            pieces = (
                ("a👩", "\u200d", "👩\u200d", "👧 e", "\u0301\r\n\u2028x") if message == "letters" else ("x" * 100,) * 2_000
            )
            async with context.stream() as out:
                for piece in pieces:
                    await out.write(piece)

    async with fronting(varied) as front:
        data, nothing, letters, long = await front.play("data", "nothing", "letters", "long")
        assert data.texts[-1] == '{"a":[1]}'
        assert (nothing.failed, nothing.texts[-1]) == (None, "nothing")
        assert letters.texts[-1] == "a👩\u200d👩\u200d👧 e\u0301\r\n\u2028x"
        assert len(long.texts[-1]) == 200_000


async def test_results_of_some_calls_come_before_the_others() -> None:
    """Arguments that are no JSON are the agent's to correct, and no call for the front end."""
    three: Any = [calls("show_map", {"place": "Bonn"}), calls("show_map", "{oops"), calls("show_map", {"place": "Rome"})]
    model = ScriptedModel(three, "You see them.")
    async with fronting(LlmAgent("guide", model=model)) as front:
        tools = {"options": {"tools": [MAP]}}
        (asked,) = await front.play({"say": "where?", **tools})
        assert asked.pending is not None
        bonn, rome = asked.pending
        first = {"id": "g1", "role": "tool", "toolCallId": bonn, "content": "seen"}
        half = await front.one({"messages": [*asked.messages, first], **tools})
        assert (half.failed, len(model.requests)) == (None, 1)
        second = {**first, "id": "g2", "toolCallId": rome}
        whole = await front.one({"messages": [*half.messages, second], **tools})
        assert whole.texts[-1] == "You see them."
        assert [result.call_id for result in model.requests[1].messages[-1].tool_results if not result.failed] == [bonn, rome]


async def test_a_private_call_is_not_told_to_users() -> None:
    @agent
    async def helper(context: AgentContext) -> str:
        context.state["found"] = 1
        return "private answer"

    @agent(children=[helper])
    async def asks(context: AgentContext) -> str:
        await context.call("helper", "private question")
        return "public"

    async with fronting(asks, GatewayConfig(auth=AuthConfig())) as front:
        key = await key_for(front.runner)
        ran, back = await front.one("go", headers=key), await front.one({}, headers=key)
        assert [event["name"] for event in ran.of("SUBAGENT_STARTED")] == ["asks"]
        assert ran.state == {"found": 1}
        for each in (ran, back):
            assert each.texts == ["go", "public"]
            assert "private" not in str(each.events)


async def test_a_client_that_leaves_and_comes_back() -> None:
    gate = Gate()

    @agent(children=[gate.agent])
    async def begins(context: AgentContext) -> None:
        await context.say("One moment.")
        await context.delegate("gated", segment="gated")

    async with fronting(begins) as front:
        left = await front.one({"say": "hi", "leaveOn": "TEXT_MESSAGE_END"})
        assert left.texts[-1] == "One moment."
        await soon(gate.began.wait())
        gate.go.set()
        await front.runner.idle()
        back = await front.one({"messages": left.messages})
        assert back.texts == ["hi", "One moment.", "answer to hi"]


async def test_a_process_that_dies_in_the_middle(make_runner: Callable[..., Runner]) -> None:
    """Another takes the message up: its attempt is told, and what the dead one left is not."""
    crash = Crash()

    @agent
    async def speaks(context: AgentContext) -> str:
        await context.say("One.")
        await crash.here()
        return "Two."

    await kill(make_runner, speaks, crash, message_id="r")
    runner = make_runner(speaks)
    async with served(runner) as gateway:
        front = Front(gateway, runner)
        ran = await soon(asyncio.create_task(front.one({"options": {"runId": "r"}}, thread="s", user="ada")))
        assert (ran.failed, ran.texts) == (None, ["One.", "Two."])
