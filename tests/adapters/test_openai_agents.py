"""Agents of the OpenAI Agents SDK behind the front door, against the real library."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from adapter_play import Process, cancelled_in_the_middle, died_and_taken_up, house, read, whole
from frameworks_play import shown_and_printed
from pydantic import BaseModel
from runner_play import ask, direct

from turnwise import DataPart, RunConfig
from turnwise.agents.adapters.openai_agents import OpenAiAgent
from turnwise.facts.errors import AgentDefinitionError

agents = pytest.importorskip("agents", reason="openai-agents is not installed: ./dev test adapters brings it")

from agents import Agent, RunContextWrapper, function_tool, input_guardrail  # noqa: E402
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call  # noqa: E402
from agents.usage import Usage  # noqa: E402


def says(text: str) -> Any:
    return ModelStep(output=[assistant_message(text)], usage=Usage(requests=1, input_tokens=10, output_tokens=4))


def calls(tool: str, arguments: dict[str, Any] | None = None) -> Any:
    return ModelStep(
        output=[function_call(tool, arguments or {}, call_id=f"call-{tool}")], usage=Usage(requests=1, input_tokens=10)
    )


def adapted(*steps: Any, **options: Any) -> OpenAiAgent:
    return OpenAiAgent(Agent(name="guide", model=ScriptedModel(list(steps))), **options)


def model_of(adapter: OpenAiAgent) -> Any:
    return adapter._agent.model


async def test_it_answers_in_pieces_that_are_the_stored_answer_with_its_usage(process: Process) -> None:
    """A19."""
    turn = await read(process(adapted(says("It opens at nine."))), "When?")
    assert (turn.text, turn.reason) == ("It opens at nine.", "completed")
    assert turn.pieces == {turn.answer.id: "It opens at nine."}
    usage = turn.answer.actions.usage
    assert usage is not None
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 10, 4)


async def test_it_is_handed_the_conversation_with_others_words_marked(process: Process) -> None:
    """D7."""
    adapter = adapted(says("It opens at nine."), says("At six."))
    runner = process(house(adapter))
    await read(runner, "When?", to="guide")
    await read(runner, "And the clerk?", to="clerk")
    await read(runner, "Until when?", to="guide")
    first, second, third = model_of(adapter).calls[-1].input
    assert first["content"][-1] == {"type": "input_text", "text": "When?"}
    assert second == {"role": "assistant", "content": "It opens at nine."}
    said = [each["text"] for each in third["content"]]
    assert said == ["And the clerk?", """<said by="clerk">The clerk heard 'And the clerk?'.</said>""", "Until when?"]


async def test_it_answers_whole_when_nothing_is_to_be_streamed(process: Process) -> None:
    assert (await whole(process(adapted(says("Nine."))), "When?")).text == "Nine."


async def test_tools_and_handoffs_stay_inside(process: Process) -> None:
    @function_tool
    def hours(context: RunContextWrapper[str]) -> str:
        return f"9 to 6 for {context.context}"

    second = ScriptedModel([calls("hours"), says("Nine.")])
    expert = Agent(name="expert", model=second, tools=[hours])
    first = ScriptedModel([calls("transfer_to_expert")])
    theirs = Agent(name="guide", model=first, handoffs=[expert])
    turn = await read(process(OpenAiAgent(theirs, run_context=lambda context: context.session.user)), "When?")
    assert (turn.text, turn.error, turn.answer.author) == ("Nine.", "", "guide")
    assert "9 to 6 for ada" in str(second.calls[-1].input)
    assert turn.answer.actions.usage is not None
    assert turn.answer.actions.usage.calls == 3


async def test_an_output_that_is_no_text_is_data_and_never_shown_as_text(process: Process) -> None:
    class Hours(BaseModel):
        opens: int

    theirs = Agent(name="guide", model=ScriptedModel([says('{"opens": 9}')]), output_type=Hours)
    turn = await read(process(OpenAiAgent(theirs)), "When?")
    assert turn.answer.content is not None
    assert turn.answer.content.parts == (DataPart(name="output", data={"opens": 9}),)
    assert turn.pieces == {}


class Status(Exception):
    def __init__(self, status: int) -> None:
        super().__init__("a secret word")
        self.status_code = status


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Status(429), "model.unavailable"),
        (Status(401), "model.refused"),
        (ConnectionError("gone"), "model.unavailable"),
        (RuntimeError("broke"), "agent.failed"),
    ],
)
async def test_what_it_raises_is_a_typed_failure_and_the_session_goes_on(process: Process, error: Any, code: str) -> None:
    runner = process(adapted(ModelStep(error=error), says("Nine.")))
    failed = await read(runner, "When?")
    assert failed.reason == "failed"
    assert failed.error.startswith(f"{code}: Agent 'guide'")
    assert "secret" not in failed.error
    assert (await read(runner, "Again?")).text == "Nine."


async def test_its_turns_and_its_guardrails_end_it_by_name(process: Process) -> None:
    @function_tool
    def hours() -> str:
        return "9 to 6"

    @input_guardrail(name="no prices")
    async def no_prices(context: Any, agent: Any, given: Any) -> Any:
        return agents.GuardrailFunctionOutput(output_info=None, tripwire_triggered="price" in str(given))

    model = ScriptedModel([calls("hours"), ModelStep(output=[function_call("hours", {}, call_id="c2")])])
    theirs = Agent(name="guide", model=model, tools=[hours], input_guardrails=[no_prices])
    runner = process(OpenAiAgent(theirs, max_turns=2))
    limited = await read(runner, "When?")
    assert limited.reason == "limit:steps"
    assert "Raise max_turns of agent 'guide'" in limited.error
    theirs.model = ScriptedModel([says("It is 5.")])
    stopped = await read(runner, "What price?")
    assert stopped.error == "agent.failed: Agent 'guide' was stopped by its guardrail 'no prices'."


@pytest.mark.parametrize(("reply", "last"), [("yes", "opened"), ("not now", "did not agree. not now")])
async def test_a_tool_that_needs_approval_is_asked_about_and_the_run_goes_on(process: Process, reply: str, last: str) -> None:
    """A42: in another process, without asking the model a second time."""
    opened: list[str] = []

    @function_tool(needs_approval=True)
    def open_door(door: str) -> str:
        opened.append(door)
        return "opened"

    model = ScriptedModel([calls("open_door", {"door": "north"}), says("Done.")])
    adapter = OpenAiAgent(Agent(name="guide", model=model, tools=[open_door]))
    waiting = await read(process(adapter), "Open it")
    assert (waiting.reason, waiting.text) == ("waiting", 'May I call open_door with door = "north"?')
    assert opened == []
    done = await read(process(adapter), reply)
    assert (done.text, done.reason) == ("Done.", "completed")
    assert opened == (["north"] if reply == "yes" else [])
    assert len(model.calls) == 2
    assert last in str(model.calls[-1].input)


async def test_a_turn_that_is_taken_up_again_does_not_ask_it_again(process: Process) -> None:
    """Decision 6."""
    adapter = adapted(says("Nine."))
    assert await died_and_taken_up(process, adapter) == ["hi", "Nine.", "(filed)"]
    assert len(model_of(adapter).calls) == 1


async def test_it_is_cancelled_in_the_middle(process: Process) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @function_tool
    async def wait() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    theirs = Agent(name="guide", model=ScriptedModel([calls("wait")]), tools=[wait])
    assert await cancelled_in_the_middle(process(OpenAiAgent(theirs)), begun) == "cancelled"
    assert ended.is_set()


def test_what_is_no_agent_of_theirs_is_refused() -> None:
    with pytest.raises(AgentDefinitionError, match="A str cannot be wrapped"):
        OpenAiAgent("guide")


async def test_it_hands_over_to_an_agent_of_ours(process: Process) -> None:
    """A35: its run ends there, the usage is recorded, and the other agent answers in the same invocation."""
    adapter = adapted(calls("transfer_to_agent", {"agent": "clerk"}), hands_over=True)
    turn = await read(process(house(adapter)), "I want to buy it.", to="guide")
    assert (turn.text, turn.reason) == ("The clerk heard 'I want to buy it.'.", "completed")
    assert len(model_of(adapter).calls) == 1
    assert [event.actions.usage.calls for event in turn.events if event.actions.usage is not None] == [1]


async def test_it_may_tell_the_other_something_else(process: Process) -> None:
    told = {"agent": "clerk", "message": "Sell a guide book."}
    again = ModelStep(output=[function_call("transfer_to_agent", told, call_id="again")], usage=Usage(requests=1))
    adapter = adapted(calls("transfer_to_agent", {"agent": "nobody"}), again, hands_over=True)
    result = await ask(process(house(adapter)), "I want to buy it.", context=direct("guide"), config=RunConfig(streaming=False))
    assert result.text == "The clerk heard 'Sell a guide book.'."
    assert len(model_of(adapter).calls) == 2


async def test_without_others_it_has_no_such_tool(process: Process) -> None:
    alone, quiet = adapted(says("At nine."), hands_over=True), adapted(says("At nine."))
    await whole(process(alone), "When?")
    await whole(process(house(quiet)), "When?")
    assert [list(model_of(each).calls[0].tools) for each in (alone, quiet)] == [[], []]


def test_the_page_on_frameworks_prints_what_it_shows(tmp_path: Path) -> None:
    """An agent with a fake of its framework behind one door with one of ours."""
    shown, printed = shown_and_printed("with_openai_agents.py", tmp_path)
    assert printed == shown
