"""Calls that an agent's own tool works on: put to whoever may say what they gave, and to nobody else (A42)."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import openai
import pytest
from gateway_play import Served, key_for, served
from openai_play import assistant, client_of, joined, said, session_of, told
from responses_play import WEATHER, bearer, calls_in, read
from websockets.asyncio.client import connect

from turnwise import AgentContext, Content, Runner, SqlSessionStore, agent
from turnwise.facts.content import ToolResultPart
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.gateway.openai.responses.response import parse_call_id


@agent
async def clerk(message: str, context: AgentContext) -> str:
    if "where" not in message:
        return f"{message}, you say."
    found = await context.ask("Looking it up.", tool="look_up", arguments={"number": 7})
    return f"It is {found.tool_results[0].result}."


class Desk(NamedTuple):
    """A gateway, and clients of ann's and of a server that acts for her."""

    gateway: Served
    runner: Runner
    ann: Any
    server: Any
    key: dict[str, str]

    async def deliver(self, session: str) -> None:
        """Whoever did the work says what it gave."""
        (call,) = (await self.runner.sessions.get(self.runner.key("ann", session))).head.calls
        content = Content(role="user", parts=(ToolResultPart(call_id=call, result="here"),))
        result = await (await self.runner.start(content, user="ann", session=session)).result()
        assert result.text == "It is here."


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    runner = Runner(clerk, store=SqlSessionStore("sqlite://"))
    try:
        async with served(runner, GatewayConfig(auth=AuthConfig())) as gateway:
            key, server = await key_for(runner, user="ann"), await key_for(runner, acts_for_users=True)
            async with client_of(gateway, bearer(key)) as ann, client_of(gateway, bearer(server)) as other:
                yield Desk(gateway, runner, ann, other, key)
    finally:
        await runner.close()


async def ask(client: Any, *messages: Any, **options: Any) -> Any:
    return await client.chat.completions.create(model="turnwise", messages=told(messages), **options)


async def test_a_user_is_told_in_a_completion_that_it_is_pending() -> None:
    async with desk() as all_:
        answer = await ask(all_.ann, "where?")
        assert (said(answer), answer.choices[0].finish_reason) == ("Looking it up.", "stop")
        assert (answer.choices[0].message.tool_calls, answer.turnwise["pending"]) == (None, True)
        chunks = [chunk async for chunk in await ask(all_.ann, "where?", stream=True)]
        assert (joined(chunks), chunks[-1].choices[0].finish_reason) == ("Looking it up.", "stop")
        assert chunks[-1].model_extra["turnwise"]["pending"] is True
        assert not any(choice.delta.tool_calls for chunk in chunks for choice in chunk.choices)
        assert (await ask(all_.ann, "hi")).turnwise["pending"] is False


async def test_who_can_say_what_it_gave_has_it_as_a_call() -> None:
    async with desk() as all_:
        asked = await ask(all_.server, "where?", user="ann")
        (call,) = asked.choices[0].message.tool_calls
        assert (asked.choices[0].finish_reason, asked.turnwise["pending"]) == ("tool_calls", True)
        assert (call.function.name, json.loads(call.function.arguments)) == ("look_up", {"number": 7})
        shown = {"role": "tool", "tool_call_id": call.id, "content": "here"}
        answer = await ask(all_.server, "where?", asked.choices[0].message.model_dump(), shown, user="ann")
        assert (said(answer), answer.turnwise["pending"]) == ("It is here.", False)


async def test_a_user_is_told_in_a_response_that_it_is_pending() -> None:
    async with desk() as all_:
        made = await all_.ann.responses.create(model="turnwise", input="where?", tools=[WEATHER])
        assert (made.status, made.output_text, calls_in(made)) == ("completed", "Looking it up.", [])
        assert made.turnwise["pending"] is True
        assert await all_.ann.responses.retrieve(made.id) == made
        events = await read(await all_.ann.responses.retrieve(made.id, stream=True))
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert not any("function_call" in event.type for event in events)
        assert events[-1].response == made


async def test_a_user_is_told_on_a_socket_that_it_is_pending() -> None:
    async with desk() as all_:
        at = all_.gateway.address.replace("http", "ws") + "/v1/responses"
        async with connect(at, additional_headers=all_.key) as socket:
            await socket.send(json.dumps({"type": "response.create", "input": "where?"}))
            events = []
            async for each in socket:
                events.append(json.loads(each))
                if events[-1]["type"] == "response.completed":
                    break
        assert events[-1]["response"]["turnwise"]["pending"] is True
        assert [item["type"] for item in events[-1]["response"]["output"]] == ["message"]


async def test_whoever_can_say_it_has_the_call_in_the_same_response() -> None:
    async with desk() as all_:
        made = await all_.ann.responses.create(model="turnwise", input="where?")
        seen = await all_.server.responses.retrieve(made.id, extra_query={"user": "ann"})
        (call,) = calls_in(seen)
        assert (call.name, seen.turnwise["pending"]) == ("look_up", True)
        given = parse_call_id(call.call_id)
        assert given is not None
        forged = {"type": "function_call_output", "call_id": call.call_id, "output": "forged"}
        with pytest.raises(openai.PermissionDeniedError):
            await all_.ann.responses.create(model="turnwise", input=[forged], previous_response_id=made.id)


async def test_the_conversation_goes_on_when_it_came() -> None:
    """The client does not know of what others said: to it nothing came in between."""
    async with desk() as all_:
        first = await ask(all_.ann, "where?")
        await all_.deliver(session_of(first))
        past = ["where?", assistant("Looking it up.")]
        second = await ask(all_.ann, *past, "thanks")
        assert (said(second), session_of(second)) == ("thanks, you say.", session_of(first))


async def test_the_conversation_goes_on_when_it_came_after_other_turns() -> None:
    async with desk() as all_:
        first = await ask(all_.ann, "where?")
        past = ["where?", assistant("Looking it up."), "hi"]
        second = await ask(all_.ann, *past)
        await all_.deliver(session_of(first))
        third = await ask(all_.ann, *past, assistant(said(second)), "thanks")
        assert session_of(first) == session_of(second) == session_of(third)


async def test_a_response_is_gone_on_from_when_it_came() -> None:
    async with desk() as all_:
        first = await all_.ann.responses.create(model="turnwise", input="where?")
        session = first.turnwise["session_id"]
        await all_.deliver(session)
        second = await all_.ann.responses.create(model="turnwise", input="thanks", previous_response_id=first.id)
        assert (second.output_text, second.turnwise["session_id"]) == ("thanks, you say.", session)
        # Once more from the same place is a copy, as ever.
        other = await all_.ann.responses.create(model="turnwise", input="well", previous_response_id=first.id)
        assert other.turnwise["session_id"] != session


async def test_a_response_can_be_deleted_with_what_came() -> None:
    async with desk() as all_:
        first = await all_.ann.responses.create(model="turnwise", input="where?")
        await all_.deliver(first.turnwise["session_id"])
        await all_.ann.responses.delete(first.id)
        assert [event.text for event in await all_.runner.sessions.events(_key(all_, first)) if event.text] == []


def _key(all_: Desk, response: Any) -> Any:
    return all_.runner.key("ann", response.turnwise["session_id"])
