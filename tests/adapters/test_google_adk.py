"""Agents of Google's Agent Development Kit behind the front door, against the real library."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from adapter_play import Process, cancelled_in_the_middle, died_and_taken_up, house, read, whole, words_of
from pydantic import BaseModel

from turnwise import DataPart
from turnwise.agents.adapters.google_adk import GoogleAdkAgent
from turnwise.facts.errors import AgentDefinitionError

pytest.importorskip("google.adk", reason="google-adk is not installed: ./dev test adapters brings it")

from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.agents.run_config import RunConfig
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.tools import LongRunningFunctionTool, ToolContext
from google.genai import types
from google.genai.errors import ClientError, ServerError

COUNTED = types.GenerateContentResponseUsageMetadata(
    prompt_token_count=10, candidates_token_count=3, thoughts_token_count=1, cached_content_token_count=2
)


def content(*parts: types.Part) -> types.Content:
    return types.Content(role="model", parts=list(parts))


class Scripted(BaseLlm):
    """A model that says these answers, one a call, in pieces; what it was sent is in `calls`."""

    model: str = "scripted"
    answers: list[Any]
    calls: list[list[tuple[str, str]]] = []

    async def generate_content_async(self, request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        sent = [(str(each.role), "|".join(part.text or str(part) for part in each.parts or [])) for each in request.contents]
        self.calls.append(sent)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, LlmResponse):
            yield answer
            return
        for word in words_of(answer) if stream else ():
            yield LlmResponse(content=content(types.Part(text=word)), partial=True)
        yield LlmResponse(content=content(types.Part(text=answer)), usage_metadata=COUNTED, model_version="gemini-x")


def calls(tool: str, **arguments: Any) -> LlmResponse:
    call = types.FunctionCall(id=f"call-{tool}", name=tool, args=arguments)
    return LlmResponse(content=content(types.Part(function_call=call)), usage_metadata=COUNTED, model_version="gemini-x")


def adapted(model: Scripted, **options: Any) -> GoogleAdkAgent:
    return GoogleAdkAgent(LlmAgent(name="guide", model=model, description="Opening hours."), **options)


async def test_it_answers_in_pieces_that_are_the_stored_answer_with_its_usage(process: Process) -> None:
    """A19."""
    adapter = adapted(Scripted(answers=["It opens at nine."]))
    assert adapter.card.description == "Opening hours."
    turn = await read(process(adapter), "When?")
    assert (turn.text, turn.reason) == ("It opens at nine.", "completed")
    assert turn.pieces == {turn.answer.id: "It opens at nine."}
    usage = turn.answer.actions.usage
    assert usage is not None
    assert (usage.model, usage.calls) == ("google:gemini-x", 1)
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (10, 2, 4)


async def test_it_is_handed_the_conversation_with_others_words_marked(process: Process) -> None:
    """D7."""
    model = Scripted(answers=["It opens at nine.", "At six."])
    runner = process(house(adapted(model)))
    await read(runner, "When?", to="guide")
    await read(runner, "And the clerk?", to="clerk")
    await read(runner, "Until when?", to="guide")
    first, second, third = model.calls[-1]
    assert first[1].endswith("When?")
    assert second == ("model", "It opens at nine.")
    assert third[1] == """And the clerk?|<said by="clerk">The clerk heard 'And the clerk?'.</said>|Until when?"""


async def test_it_answers_whole_when_nothing_is_to_be_streamed(process: Process) -> None:
    assert (await whole(process(adapted(Scripted(answers=["Nine."]))), "When?")).text == "Nine."


@pytest.mark.filterwarnings("ignore:SequentialAgent is deprecated")
async def test_tools_state_and_sub_agents_stay_inside(process: Process) -> None:
    def hours(tool_context: ToolContext) -> str:
        """The hours."""
        return f"9 to 6 for {tool_context.state['who']}"

    first = Scripted(answers=[calls("hours"), "A draft."])
    second = Scripted(answers=["Nine."])
    steps = [LlmAgent(name="drafts", model=first, tools=[hours]), LlmAgent(name="writes", model=second)]
    theirs = SequentialAgent(name="guide", sub_agents=steps)
    turn = await read(process(GoogleAdkAgent(theirs, state=lambda context: {"who": context.session.user})), "When?")
    assert (turn.text, turn.error, turn.answer.author) == ("Nine.", "", "guide")
    assert "9 to 6 for ada" in str(first.calls[-1])
    assert turn.pieces.pop(turn.answer.id) == "Nine."
    assert list(turn.pieces.values()) == ["A draft."]
    assert turn.answer.actions.usage is not None
    assert turn.answer.actions.usage.calls == 3


async def test_an_answer_by_its_output_schema_is_data(process: Process) -> None:
    class Hours(BaseModel):
        opens: int

    theirs = LlmAgent(name="guide", model=Scripted(answers=['{"opens": 9}']), output_schema=Hours)
    turn = await read(process(GoogleAdkAgent(theirs)), "When?")
    assert turn.answer.content is not None
    assert turn.answer.content.parts == (DataPart(name="output", data={"opens": 9}),)


REFUSED = LlmResponse(error_code="SAFETY", error_message="a secret word")
LATE = LlmResponse(error_code="RESOURCE_EXHAUSTED", error_message="a secret word")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ServerError(503, {"error": {"message": "a secret word"}}), "model.unavailable"),
        (ClientError(429, {"error": {"message": "a secret word"}}), "model.unavailable"),
        (ClientError(400, {"error": {"message": "a secret word"}}), "model.refused"),
        (REFUSED, "model.refused"),
        (LATE, "model.unavailable"),
        (RuntimeError("broke"), "agent.failed"),
    ],
)
async def test_what_it_raises_is_a_typed_failure_and_the_session_goes_on(process: Process, error: Any, code: str) -> None:
    runner = process(adapted(Scripted(answers=[error, "Nine."])))
    failed = await read(runner, "When?")
    assert failed.reason == "failed"
    assert failed.error.startswith(f"{code}: Agent 'guide'")
    assert "secret" not in failed.error
    assert (await read(runner, "Again?")).text == "Nine."


async def test_its_limit_of_calls_is_a_limit_and_tools_that_wait_are_named(process: Process) -> None:
    def hours() -> str:
        """The hours."""
        return "9 to 6"

    def boss() -> None:
        """Asks the boss."""

    model = Scripted(answers=[calls("hours"), calls("hours"), calls("hours")])
    theirs = LlmAgent(name="guide", model=model, tools=[hours])
    limited = await read(process(GoogleAdkAgent(theirs, run_config=RunConfig(max_llm_calls=2))), "When?")
    assert limited.reason == "limit:steps"
    assert "Raise max_llm_calls" in limited.error
    waits = LlmAgent(name="guide", model=Scripted(answers=[calls("boss"), ""]), tools=[LongRunningFunctionTool(boss)])
    waiting = await read(process(GoogleAdkAgent(waits)), "When?")
    assert "waits for the results of boss" in waiting.error


async def test_a_turn_that_is_taken_up_again_does_not_ask_it_again(process: Process) -> None:
    """Decision 6."""
    model = Scripted(answers=["Nine."])
    assert await died_and_taken_up(process, adapted(model)) == ["hi", "Nine.", "(filed)"]
    assert len(model.calls) == 1


async def test_it_is_cancelled_in_the_middle(process: Process) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Waits."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    theirs = LlmAgent(name="guide", model=Scripted(answers=[calls("wait")]), tools=[wait])
    assert await cancelled_in_the_middle(process(GoogleAdkAgent(theirs)), begun) == "cancelled"
    assert ended.is_set()


def test_what_is_no_agent_of_theirs_is_refused() -> None:
    with pytest.raises(AgentDefinitionError, match="A str cannot be wrapped"):
        GoogleAdkAgent("guide")
