"""What an LLM agent says: in pieces and as a whole, with its usage and its end, and how it fails (A19, A20, A23)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from llm_play import heard, told
from runner_play import ask, key, kill, reason, soon, texts

from turnwise import Limits, RunConfig, Runner
from turnwise.agents.llm import LlmAgent
from turnwise.facts.content import Content, TextPart, ThinkingPart, ToolCallPart
from turnwise.facts.errors import ModelRefused, ModelUnavailable
from turnwise.facts.usage import Usage
from turnwise.ports.model import ModelReply, ModelRequest
from turnwise.testing.models import FunctionModel, ScriptedModel, calls

Process = Callable[..., Runner]


def weather(city: str) -> str:
    """Says the weather."""
    return f"sunny in {city}"


async def events_of(runner: Runner, text: str, **options: Any) -> list[Any]:
    invocation = await runner.start(text, user="ada", session="s", **options)
    return [event async for event in invocation.events()]


async def test_an_answer_is_its_end_too(process: Process) -> None:
    """Two commits for a turn; the model saw the message, and its usage is on record."""
    model = ScriptedModel(ModelReply(Content(parts=(TextPart(text="Hello."),)), Usage(model="m", output_tokens=3)))
    runner = process(LlmAgent("clerk", model=model))
    result = await ask(runner, "hi")
    assert (result.text, reason(result)) == ("Hello.", "completed")
    assert result.events[-1].actions.usage == Usage(model="m", output_tokens=3)
    assert (await runner.sessions.get(key())).revision == 2
    assert heard(model.requests[0]) == [("user", "hi")]
    assert model.requests[0].tools == ()


async def test_pieces_are_shown_under_the_id_of_the_whole(process: Process) -> None:
    """A19: text, thinking, and the arguments of calls."""
    model = ScriptedModel(
        [ThinkingPart(text="Where is it?"), "Let me see, one moment.", calls("weather", {"city": "Rome"})], "Sunny there."
    )
    events = await events_of(process(LlmAgent("clerk", model=model, tools=[weather])), "weather in Rome?")
    partial = [e for e in events if e.partial]
    first = next(e for e in events if not e.partial and e.author == "clerk")
    pieces = [part for e in partial if e.id == first.id for part in e.content.parts]
    assert "".join(p.text for p in pieces if isinstance(p, TextPart)) == "Let me see, one moment."
    assert "".join(p.text for p in pieces if isinstance(p, ThinkingPart)) == "Where is it?"
    written = [p for p in pieces if isinstance(p, ToolCallPart)]
    assert "".join(p.raw or "" for p in written) == '{"city": "Rome"}'
    assert {(p.call_id, p.tool) for p in written} == {(first.content.tool_calls[0].call_id, "weather")}
    assert "".join(e.text for e in partial if e.id == events[-1].id) == events[-1].text == "Sunny there."


async def test_without_streaming_there_are_no_pieces(process: Process) -> None:
    """A43."""
    seen: list[ModelRequest] = []

    class Plain(ScriptedModel):
        def answer(self, request: ModelRequest, *, stream: bool) -> Any:
            assert not stream
            seen.append(request)
            return super().answer(request, stream=stream)

    events = await events_of(process(LlmAgent("clerk", model=Plain("Hi."))), "hi", config=RunConfig(streaming=False))
    assert [e.partial for e in events] == [False, False]
    assert len(seen) == 1


async def test_an_answer_that_broke_off_is_asked_for_again(process: Process) -> None:
    """What was shown of it belongs to no event; readers replace it by the other one's pieces."""
    broken = ModelUnavailable("The stream was cut.", retry_after=0)
    model = ScriptedModel(["Half an answ", broken], "A whole answer.")
    events = await events_of(process(LlmAgent("clerk", model=model)), "hi")
    partial = [(e.id == events[-1].id, e.text) for e in events if e.partial]
    assert "".join(text for last, text in partial if not last) == "Half an answ"
    assert "".join(text for last, text in partial if last) == events[-1].text == "A whole answer."
    assert [e.text for e in events if not e.partial] == ["hi", "A whole answer."]


async def test_an_answer_that_breaks_off_again_and_again_fails(process: Process) -> None:
    broken = ModelUnavailable("The stream was cut.", retry_after=0)
    half: list[str | BaseException] = ["Half", broken]
    model = ScriptedModel(half, half, half, half)
    result = await ask(process(LlmAgent("clerk", model=model)), "hi")
    assert (reason(result), result.error and result.error.code) == ("failed", "model.unavailable")
    assert len(model.requests) == 3


@pytest.mark.parametrize(
    ("error", "code"),
    [(ModelUnavailable("Overloaded."), "model.unavailable"), (ModelRefused("No such key."), "model.refused")],
)
async def test_a_model_that_fails_ends_the_turn_with_its_error(process: Process, error: Exception, code: str) -> None:
    """A20: once nothing was shown, retries are the model's own; the session stays usable."""
    model = ScriptedModel(error, "Hello.")
    runner = process(LlmAgent("clerk", model=model))
    result = await ask(runner, "hi")
    assert (reason(result), result.error and result.error.code) == ("failed", code)
    assert len(model.requests) == 1
    assert (await ask(runner, "again")).text == "Hello."


async def test_usage_is_recorded_for_every_step(process: Process) -> None:
    model = ScriptedModel(calls("weather", {"city": "Rome"}), "Sunny.")
    result = await ask(process(LlmAgent("clerk", model=model, tools=[weather])), "hi")
    usages = [e.actions.usage for e in result.events if e.actions.usage]
    assert [usage.calls for usage in usages] == [1, 1]


async def test_ids_of_calls_are_ours(process: Process) -> None:
    """Providers repeat theirs; ours are unlike in the whole log, and short enough for everybody."""
    model = ScriptedModel([calls("weather", {"city": "Rome"}), calls("weather", {"city": "Oslo"})], "A.")
    again = ScriptedModel(calls("weather", {"city": "Bonn"}), "B.")
    one = await ask(process(LlmAgent("clerk", model=model, tools=[weather])), "hi")
    two = await ask(process(LlmAgent("clerk", model=again, tools=[weather])), "hi")
    ids = [c.call_id for e in (*one.events, *two.events) if e.content for c in e.content.tool_calls]
    assert len(set(ids)) == 3
    assert all(len(id_) <= 40 and id_.replace("-", "").isalnum() for id_ in ids)
    assert told(one) == ["sunny in Rome", "sunny in Oslo"]


async def test_a_loop_without_end_is_stopped(process: Process) -> None:
    """limits.steps, or the agent's own."""

    def again(request: ModelRequest) -> Any:
        return calls("weather", {"city": "Rome"})

    for options, times in [({"max_steps": 2}, 2), ({}, 3)]:
        agent = LlmAgent("clerk", model=FunctionModel(again), tools=[weather], **options)  # type: ignore[arg-type]
        result = await ask(process(agent), "hi", config=RunConfig(limits=Limits(steps=3)))
        assert (reason(result), result.error and result.error.code) == ("limit:steps", "limit")
        assert len(told(result)) == times


async def test_the_answer_is_kept_in_the_state(process: Process) -> None:
    """output_key: in the same commit; what is left of it after guardrails."""
    runner = process(LlmAgent("clerk", model=ScriptedModel("Hello."), output_key="said"))
    await ask(runner, "hi")
    session = await runner.sessions.get(key())
    assert (session.state, session.revision) == ({"said": "Hello."}, 2)


async def test_an_answer_after_a_wait_comes_without_asking_again(process: Process) -> None:
    """A42: what the model said before is not asked for again, in another process."""
    from turnwise.tools.built_in import ask_user

    first = ScriptedModel(calls("ask_user", {"question": "Which city?"}))
    second = ScriptedModel("Sunny in Rome.")
    waits = await ask(process(LlmAgent("clerk", model=first, tools=[ask_user])), "weather?")
    assert (reason(waits), waits.text) == ("waiting", "Which city?")
    done = await ask(process(LlmAgent("clerk", model=second, tools=[ask_user])), "Rome")
    assert (done.text, reason(done)) == ("Sunny in Rome.", "completed")
    assert told(done) == ["Rome"]
    assert len(second.requests) == 1


async def test_a_model_is_not_asked_again_after_a_crash(process: Process) -> None:
    """Decision 6: its answer is said anew by the next attempt, under the same calls' ids."""
    began = asyncio.Event()

    async def slow(city: str) -> str:
        began.set()
        if len(ran) == 0:
            ran.append(city)
            await asyncio.Event().wait()
        return f"sunny in {city}"

    ran: list[str] = []
    model = ScriptedModel(["Let me see.", calls("slow", {"city": "Rome"})], "Sunny.")
    agent = LlmAgent("clerk", model=model, tools=[slow])

    class Reached:
        reached = began

    await kill(process, agent, Reached(), "hi")  # type: ignore[arg-type]
    alive = process(agent)
    await alive.recover()
    assert await texts(alive) == ["hi", "Let me see.", "Sunny."]
    assert (len(model.requests), model.left) == (2, 0)


async def test_cancel_in_the_middle_of_an_answer_leaves_a_log_that_goes_on(process: Process) -> None:
    """A23."""
    shown = asyncio.Event()

    class Endless:
        name = "endless:model"

        async def answer(self, request: ModelRequest, *, stream: bool) -> Any:
            from turnwise.ports.model import ModelPiece

            yield ModelPiece("text", "Once upon ")
            shown.set()
            await asyncio.Event().wait()

    runner = process(LlmAgent("clerk", model=Endless()))
    invocation = await runner.start("hi", user="ada", session="s")
    await soon(shown.wait())
    await invocation.cancel()
    assert reason(await invocation.result()) == "cancelled"
    model = ScriptedModel("Hello.")
    assert (await ask(process(LlmAgent("clerk", model=model)), "again")).text == "Hello."
    assert [role for role, _ in heard(model.requests[0])] == ["user"]


async def test_cancel_in_the_middle_of_a_tool_leaves_a_result(process: Process) -> None:
    """A23: every call has one, also when the process goes on with another message."""
    began = asyncio.Event()

    async def slow() -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    runner = process(LlmAgent("clerk", model=ScriptedModel(calls("slow")), tools=[slow]))
    invocation = await runner.start("hi", user="ada", session="s")
    await soon(began.wait())
    await invocation.cancel()
    result = await invocation.result()
    assert (reason(result), told(result)) == ("cancelled", ["cancelled"])
    model = ScriptedModel("Hello.")
    await ask(process(LlmAgent("clerk", model=model, tools=[slow])), "again")
    assert [r.failed for r in model.requests[0].messages[-1].tool_results] == [True]
