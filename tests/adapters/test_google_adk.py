"""Agents of Google's Agent Development Kit behind the front door, against the real library."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from adapter_play import Process, cancelled_in_the_middle, died_and_taken_up, hotel, house, read, whole, words_of
from frameworks_play import shown_and_printed
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
    offered: list[list[str]] = []

    async def generate_content_async(self, request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        sent = [(str(each.role), "|".join(part.text or str(part) for part in each.parts or [])) for each in request.contents]
        self.calls.append(sent)
        offers = [tool.function_declarations or [] for tool in request.config.tools or []]
        self.offered.append([str(each.name) for several in offers for each in several])
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
    return calls_several((tool, arguments))


def calls_several(*called: tuple[str, dict[str, Any]]) -> LlmResponse:
    made = [types.FunctionCall(id=f"call-{number}", name=tool, args=args) for number, (tool, args) in enumerate(called)]
    parts = [types.Part(function_call=call) for call in made]
    return LlmResponse(content=content(*parts), usage_metadata=COUNTED, model_version="gemini-x")


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


@pytest.mark.parametrize("streaming", [True, False])
async def test_it_hands_over_to_an_agent_of_ours(process: Process, streaming: bool) -> None:
    """A35, A36: its run ends there, the usage is recorded, and the other agent answers in the same invocation."""
    model = Scripted(answers=[calls("hand_over", agent="clerk")])
    runner = process(house(adapted(model, hands_over=True)))
    turn = await read(runner, "I want to buy it.", to="guide", streaming=streaming)
    assert (turn.text, turn.reason) == ("The clerk heard 'I want to buy it.'.", "completed")
    assert model.offered == [["hand_over"]]
    assert [event.actions.usage.calls for event in turn.events if event.actions.usage is not None] == [1]


@pytest.mark.parametrize("name", ["nobody", "till", "guide"])
async def test_a_target_that_is_unknown_or_forbidden_comes_back_as_the_tools_result(process: Process, name: str) -> None:
    """A37: it names those that are allowed, and the agent may try again."""
    again = calls("hand_over", agent="clerk", message="Sell a guide book.")
    model = Scripted(answers=[calls("hand_over", agent=name), again])
    turn = await read(process(hotel(adapted(model, hands_over=True))), "I want to buy it.", to="guide")
    assert turn.text == "The clerk heard 'Sell a guide book.'."
    assert f"There is no agent '{name}' that could take over. Choose one of: front, clerk, porter." in model.calls[1][-1][1]


@pytest.mark.parametrize("args", [{}, {"agent": ["clerk"]}, {"name": "clerk"}])
async def test_arguments_that_name_nobody_come_back_too(process: Process, args: dict[str, Any]) -> None:
    model = Scripted(answers=[calls("hand_over", **args), "At nine."])
    turn = await read(process(house(adapted(model, hands_over=True))), "When?", to="guide")
    assert (turn.text, turn.error) == ("At nine.", "")
    assert "Choose one of: front, clerk." in model.calls[1][-1][1]


async def test_of_two_transfers_at_once_the_first_counts_and_tools_beside_them_run(process: Process) -> None:
    """A40."""
    seen: list[str] = []

    def note(text: str) -> str:
        """Notes a text."""
        seen.append(text)
        return "noted"

    three = (("hand_over", {"agent": "clerk"}), ("hand_over", {"agent": "porter"}), ("note", {"text": "a buyer"}))
    theirs = LlmAgent(name="guide", model=Scripted(answers=[calls_several(*three)]), tools=[note])
    turn = await read(process(hotel(GoogleAdkAgent(theirs, hands_over=True))), "I want to buy it.", to="guide")
    assert (turn.text, seen) == ("The clerk heard 'I want to buy it.'.", ["a buyer"])


async def test_it_may_get_the_conversation_back_but_not_for_ever(process: Process) -> None:
    """A38: A→B→A is a conversation, A→B→A→B is a loop."""
    hand = calls("hand_over", agent="porter")
    model = Scripted(answers=[hand, "At nine.", hand, hand])
    runner = process(hotel(adapted(model, hands_over=True)))
    back = await read(runner, "When?", to="guide")
    assert (back.text, back.reason) == ("At nine.", "completed")
    loop = await read(runner, "Until when?", to="guide")
    assert (loop.text, loop.reason) == ("nobody was asked", "loop")
    assert model.answers == []


@pytest.mark.filterwarnings("ignore:SequentialAgent is deprecated")
async def test_an_agent_inside_it_ends_the_whole_run(process: Process) -> None:
    first, second = Scripted(answers=[calls("hand_over", agent="clerk")]), Scripted(answers=["Nine."])
    steps = [LlmAgent(name="drafts", model=first), LlmAgent(name="writes", model=second)]
    adapter = GoogleAdkAgent(SequentialAgent(name="guide", sub_agents=steps), hands_over=True)
    turn = await read(process(house(adapter)), "I want to buy it.", to="guide")
    assert turn.text == "The clerk heard 'I want to buy it.'."
    assert second.calls == []


async def test_its_own_transfers_stay_inside(process: Process) -> None:
    """The ADK's tool for sub-agents has another name."""
    inner = Scripted(answers=[calls("hand_over", agent="clerk")])
    outer = Scripted(answers=[calls("transfer_to_agent", agent_name="inner")])
    theirs = LlmAgent(name="guide", model=outer, sub_agents=[LlmAgent(name="inner", model=inner)])
    turn = await read(process(house(GoogleAdkAgent(theirs, hands_over=True))), "I want to buy it.", to="guide")
    assert turn.text == "The clerk heard 'I want to buy it.'."
    assert sorted(outer.offered[0]) == ["hand_over", "transfer_to_agent"]


async def test_without_others_it_has_no_such_tool(process: Process) -> None:
    """A35."""
    model = Scripted(answers=["Nine.", "Nine."])
    await read(process(adapted(model, hands_over=True)), "When?")
    await read(process(house(adapted(model))), "When?", to="guide")
    assert model.offered == [[], []]


def test_the_page_on_frameworks_prints_what_it_shows(tmp_path: Path) -> None:
    """An agent with a fake of its framework behind one door with one of ours."""
    shown, printed = shown_and_printed("with_adk.py", tmp_path)
    assert printed == shown
