"""Agents of Pydantic AI behind the front door, against the real library."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from adapter_play import Process, cancelled_in_the_middle, died_and_taken_up, house, read, whole, words_of
from frameworks_play import shown_and_printed
from pydantic import BaseModel

from turnwise import DataPart
from turnwise.agents.adapters.pydantic_ai import PydanticAiAgent
from turnwise.facts.errors import AgentDefinitionError

pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed: it comes with the extra llm")

from pydantic_ai import Agent, RunContext, UsageLimits
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.models.test import TestModel


class Script:
    """A model that says these answers, one a call, in pieces; what it was sent is in `calls`."""

    def __init__(self, *answers: str | Exception | dict[str, Any]) -> None:
        self.calls: list[list[ModelMessage]] = []
        self._answers = list(answers)
        self.model = FunctionModel(stream_function=self._stream, function=self._whole, model_name="scripted")

    def _next(self, messages: list[ModelMessage]) -> Any:
        self.calls.append(messages)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        answer = self._next(messages)
        if isinstance(answer, dict):
            yield {0: DeltaToolCall(name=answer["tool"], json_args=answer["args"], tool_call_id="c1")}
            return
        for word in words_of(answer):
            yield word

    def _whole(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart(self._next(messages))])

    def said(self, call: int = -1) -> list[tuple[str, str]]:
        """Who said what in that call's messages."""
        found: list[tuple[str, str]] = []
        for message in self.calls[call]:
            for part in message.parts:
                if isinstance(message, ModelRequest) and isinstance(part, UserPromptPart):
                    found.append(("user", str(part.content)))
                elif isinstance(message, ModelResponse) and isinstance(part, TextPart):
                    found.append(("model", part.content))
        return found


def adapted(script: Script, **options: Any) -> PydanticAiAgent:
    return PydanticAiAgent(Agent(script.model, name="guide"), **options)


async def test_it_answers_in_pieces_that_are_the_stored_answer_with_its_usage(process: Process) -> None:
    """A19."""
    turn = await read(process(adapted(Script("It opens at nine."))), "When?")
    assert (turn.text, turn.reason) == ("It opens at nine.", "completed")
    assert turn.pieces == {turn.answer.id: "It opens at nine."}
    usage = turn.answer.actions.usage
    assert usage is not None
    assert (usage.model, usage.calls, usage.cost) == ("scripted", 1, None)
    assert usage.input_tokens > 0
    assert usage.output_tokens > 0


async def test_it_is_handed_the_conversation_with_others_words_marked(process: Process) -> None:
    """D7."""
    script = Script("It opens at nine.", "At six.")
    runner = process(house(adapted(script)))
    await read(runner, "When?", to="guide")
    await read(runner, "And the clerk?", to="clerk")
    await read(runner, "Until when?", to="guide")
    first, second, third = script.said()
    assert (first[0], second) == ("user", ("model", "It opens at nine."))
    assert first[1].endswith("When?")
    assert "And the clerk?" in third[1]
    assert """<said by="clerk">The clerk heard 'And the clerk?'.</said>""" in third[1]
    assert third[1].endswith("Until when?")


async def test_it_answers_whole_when_nothing_is_to_be_streamed(process: Process) -> None:
    assert (await whole(process(adapted(Script("It opens at nine."))), "When?")).text == "It opens at nine."


async def test_its_tools_get_what_the_team_gives_them_and_stay_inside(process: Process) -> None:
    script = Script({"tool": "hours", "args": "{}"}, "Nine.")
    theirs: Agent[str, str] = Agent(script.model, name="guide", deps_type=str)

    @theirs.tool
    def hours(ctx: RunContext[str]) -> str:
        return f"9 to 6 for {ctx.deps}"

    runner = process(PydanticAiAgent(theirs, deps=lambda context: context.session.user))
    turn = await read(runner, "When?")
    assert turn.text == "Nine."
    assert "9 to 6 for ada" in str(script.calls[-1])
    assert turn.answer.actions.usage is not None
    assert turn.answer.actions.usage.calls == 2


async def test_words_before_a_tool_call_are_shown_under_an_id_of_their_own(process: Process) -> None:
    class Chatty(Script):
        async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
            if len(messages) == 1:
                yield "Let me look. "
                yield {0: DeltaToolCall(name="hours", json_args="{}", tool_call_id="c1")}
            else:
                yield "Nine."

    theirs = Agent(Chatty().model, name="guide", tools=[_hours])
    turn = await read(process(PydanticAiAgent(theirs)), "When?")
    assert turn.text == "Nine."
    assert turn.pieces.pop(turn.answer.id) == "Nine."
    assert list(turn.pieces.values()) == ["Let me look. "]


def _hours() -> str:
    return "9 to 6"


async def test_an_output_that_is_no_text_is_data(process: Process) -> None:
    class Hours(BaseModel):
        opens: int
        closes: int

    theirs = Agent(TestModel(custom_output_args={"opens": 9, "closes": 18}), name="guide", output_type=Hours)
    turn = await read(process(PydanticAiAgent(theirs)), "When?")
    assert turn.answer.content is not None
    assert turn.answer.content.parts == (DataPart(name="output", data={"opens": 9, "closes": 18}),)
    assert turn.pieces == {}


FAILURES = {
    "model.unavailable": ModelHTTPError(429, "scripted", body="slow down, ada"),
    "model.refused": ModelHTTPError(401, "scripted", body="the key sk-1 is wrong"),
    "agent.failed": RuntimeError("the tool broke"),
}


@pytest.mark.parametrize("code", FAILURES)
async def test_what_it_raises_is_a_typed_failure_and_the_session_goes_on(process: Process, code: str) -> None:
    """What a provider says stays in the cause."""
    runner = process(adapted(Script(FAILURES[code], "Nine.")))
    failed = await read(runner, "When?")
    assert failed.reason == "failed"
    assert failed.error.startswith(f"{code}: Agent 'guide'")
    assert "sk-1" not in failed.error
    assert "slow down" not in failed.error
    assert (await read(runner, "Again?")).text == "Nine."


async def test_its_own_limit_of_requests_is_a_limit(process: Process) -> None:
    calls = {"tool": "_hours", "args": "{}"}
    theirs = Agent(Script(calls, calls, calls).model, name="guide", tools=[_hours])
    turn = await read(process(PydanticAiAgent(theirs, usage_limits=UsageLimits(request_limit=2))), "When?")
    assert turn.reason == "limit:steps"
    assert "Raise the usage_limits of agent 'guide'" in turn.error


async def test_a_turn_that_is_taken_up_again_does_not_ask_it_again(process: Process) -> None:
    """Decision 6."""
    script = Script("It opens at nine.")
    assert await died_and_taken_up(process, adapted(script)) == ["hi", "It opens at nine.", "(filed)"]
    assert len(script.calls) == 1


async def test_it_is_cancelled_in_the_middle_of_a_word(process: Process) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        try:
            while True:
                yield "and "
                begun.set()
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    theirs = Agent(FunctionModel(stream_function=endless), name="guide")
    assert await cancelled_in_the_middle(process(PydanticAiAgent(theirs)), begun) == "cancelled"
    assert ended.is_set()


def test_what_is_no_agent_of_theirs_or_has_no_name_is_refused() -> None:
    with pytest.raises(AgentDefinitionError, match="A str cannot be wrapped"):
        PydanticAiAgent("guide")  # type: ignore[arg-type]
    with pytest.raises(AgentDefinitionError, match="has no name"):
        PydanticAiAgent(Agent(TestModel()))


TRANSFER = "transfer_to_agent"


def hands_over(agent: str, **more: str) -> dict[str, Any]:
    return {"tool": TRANSFER, "args": json.dumps({"agent": agent, **more})}


async def test_it_hands_over_to_an_agent_of_ours(process: Process) -> None:
    """A35: its run ends there, the usage is recorded, and the other agent answers in the same invocation."""
    script = Script(hands_over("clerk"))
    adapter = PydanticAiAgent(Agent(script.model, name="guide"), hands_over=True)
    turn = await read(process(house(adapter)), "I want to buy it.", to="guide")
    assert (turn.text, turn.reason) == ("The clerk heard 'I want to buy it.'.", "completed")
    assert len(script.calls) == 1
    calls = [event.actions.usage.calls for event in turn.events if event.actions.usage is not None]
    assert calls == [1]


async def test_it_may_tell_the_other_something_else(process: Process) -> None:
    script = Script(hands_over("nobody"), hands_over("clerk", message="Sell a guide book."))
    adapter = PydanticAiAgent(Agent(script.model, name="guide"), hands_over=True)
    turn = await read(process(house(adapter)), "I want to buy it.", to="guide")
    assert turn.text == "The clerk heard 'Sell a guide book.'."
    assert len(script.calls) == 2


@pytest.mark.parametrize("args", [{}, {"agent": ["clerk"]}, {"name": "clerk"}])
async def test_arguments_that_name_nobody_come_back_too(process: Process, args: dict[str, Any]) -> None:
    """A37."""
    script = Script({"tool": TRANSFER, "args": json.dumps(args)}, "At nine.")
    adapter = PydanticAiAgent(Agent(script.model, name="guide"), hands_over=True)
    turn = await read(process(house(adapter)), "When?", to="guide")
    assert (turn.text, turn.error) == ("At nine.", "")
    assert "Choose one of: front, clerk." in str(script.calls[1])


async def test_without_others_it_has_no_such_tool(process: Process) -> None:
    seen: list[list[str]] = []

    def answers(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append([tool.name for tool in info.function_tools])
        return ModelResponse([TextPart("At nine.")])

    for allowed in (True, False):
        agent = Agent(FunctionModel(answers), name="guide")
        await whole(process(PydanticAiAgent(agent, hands_over=allowed)), "When?")
    await whole(process(house(PydanticAiAgent(Agent(FunctionModel(answers), name="guide")))), "When?")
    assert seen == [[], [], []]


def test_the_page_on_frameworks_prints_what_it_shows(tmp_path: Path) -> None:
    """An agent with a fake of its framework behind one door with one of ours."""
    shown, printed = shown_and_printed("with_pydantic_ai.py", tmp_path)
    assert printed == shown
