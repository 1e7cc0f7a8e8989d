"""Answers of a type: data that was checked, or another try (output_type, output_key)."""

import asyncio
import dataclasses
from collections.abc import Callable
from datetime import date
from enum import Enum
from typing import Any, Literal

import pytest
from llm_play import last_results, told
from pydantic import BaseModel, Field
from runner_play import Crash, ask, key, kill, reason, texts
from typing_extensions import TypedDict

from turnwise import AgentContext, DataPart, Runner, agent
from turnwise.agents.llm import LlmAgent
from turnwise.facts.errors import ModelRefused
from turnwise.runner import Result
from turnwise.testing.models import ScriptedModel, calls

Process = Callable[..., Runner]


class Weather(BaseModel):
    city: str
    degrees: int = Field(ge=-90, le=60)
    day: date | None = None


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Song(TypedDict):
    title: str


class Color(Enum):
    RED = "red"


def final(**arguments: Any) -> Any:
    return calls("final_answer", arguments)


def data_of(result: Result) -> list[Any]:
    return [part.data for e in result.events if e.content for part in e.content.parts if isinstance(part, DataPart)]


@pytest.mark.parametrize(
    ("type_", "arguments", "value"),
    [
        (Weather, {"city": "Rome", "degrees": 30, "day": "2026-07-01"}, {"city": "Rome", "degrees": 30, "day": "2026-07-01"}),
        (Weather, {"city": "Rome", "degrees": 30}, {"city": "Rome", "degrees": 30, "day": None}),
        (Point, {"x": 1}, {"x": 1, "y": 0}),
        (Song, {"title": "Volare"}, {"title": "Volare"}),
        (int, {"result": 7}, 7),
        (list[Point], {"result": [{"x": 1}]}, [{"x": 1, "y": 0}]),
        (Literal["yes", "no"], {"result": "no"}, "no"),
        (int | str, {"result": "seven"}, "seven"),
        (Weather | Song, {"result": {"title": "Volare"}}, {"title": "Volare"}),
        (Color, {"result": "red"}, "red"),
        (tuple[int, int], {"result": [1, 2]}, [1, 2]),
        (set[int], {"result": [1]}, [1]),
        (bool | None, {"result": None}, None),
    ],
    ids=str,
)
async def test_an_answer_of_any_type_is_data(process: Process, type_: Any, arguments: Any, value: Any) -> None:
    model = ScriptedModel(final(**arguments))
    runner = process(LlmAgent("clerk", model=model, output_type=type_, output_key="answer"))
    result = await ask(runner, "go")
    assert (data_of(result), reason(result)) == ([value], "completed")
    (request,) = model.requests
    assert (request.choice, [spec.name for spec in request.tools]) == ("required", ["final_answer"])
    assert request.tools[0].parameters["type"] == "object"
    assert (await runner.sessions.get(key())).state == ({} if value is None else {"answer": value})


async def test_the_answer_its_result_and_the_end_are_one_commit(process: Process) -> None:
    """A23: the call by which it was given has a result, so that every provider takes the log."""
    model = ScriptedModel(final(result=7), "Hello.")
    runner = process(LlmAgent("clerk", model=model, output_type=int))
    result = await ask(runner, "go")
    assert (await runner.sessions.get(key())).revision == 3
    assert (result.events[-1].actions.end is not None, told(result)) == (True, ["Taken."])
    model = ScriptedModel("Hello.")
    await ask(process(LlmAgent("clerk", model=model, output_type=int, output_retries=0)), "again")
    assert [part.result for message in model.requests[0].messages for part in message.tool_results] == ["Taken."]


async def test_an_answer_that_does_not_fit_is_tried_again_with_the_errors(process: Process) -> None:
    """Decision 7."""
    model = ScriptedModel(final(degrees=99), final(city="Rome", degrees=30))
    result = await ask(process(LlmAgent("clerk", model=model, output_type=Weather)), "go")
    assert data_of(result) == [{"city": "Rome", "degrees": 30, "day": None}]
    (wrong,) = last_results(model.requests[1])
    assert wrong.failed
    assert "city: Field required" in str(wrong.result)
    assert "degrees: Input should be less than or equal to 60" in str(wrong.result)


async def test_a_wrapped_answer_says_how_it_is_wrapped(process: Process) -> None:
    model = ScriptedModel(final(answer=7), final(result="x"), final(result=7))
    result = await ask(process(LlmAgent("clerk", model=model, output_type=int)), "go")
    assert data_of(result) == [7]
    assert "'result'" in str(last_results(model.requests[1])[0].result)
    assert "it: Input should be a valid integer" in str(last_results(model.requests[2])[0].result)


@pytest.mark.parametrize("retries", [0, 2])
async def test_a_model_that_never_fits_fails_the_turn(process: Process, retries: int) -> None:
    model = ScriptedModel(*[final(result="x")] * 5)
    agent_ = LlmAgent("clerk", model=model, output_type=int, output_retries=retries)
    result = await ask(process(agent_), "go")
    assert (reason(result), result.error and result.error.code) == ("failed", "model.answer")
    assert len(model.requests) == retries + 1
    assert len(told(result)) == retries + 1, "every call has its result"


async def test_text_instead_of_the_answer_is_tried_again(process: Process) -> None:
    """The user sees it in no stored event; the model is told what to do."""
    model = ScriptedModel("It is seven.", final(result=7))
    result = await ask(process(LlmAgent("clerk", model=model, output_type=int)), "go")
    assert (result.text, data_of(result)) == ("", [7])
    agent_said, correction = model.requests[1].messages[-2:]
    assert (agent_said.role, agent_said.text) == ("agent", "It is seven.")
    assert "final_answer" in correction.text
    assert spent(result) == 2


def spent(result: Result) -> int:
    """How many calls of models are on record."""
    return sum(event.actions.usage.calls for event in result.events if event.actions.usage)


async def test_nothing_but_text_fails_the_turn(process: Process) -> None:
    """A20: what the drafts took is on record."""
    model = ScriptedModel(*["Seven.", "", "Seven!"])
    result = await ask(process(LlmAgent("clerk", model=model, output_type=int)), "go")
    assert (reason(result), result.error and result.error.code) == ("failed", "model.answer")
    assert (spent(result), result.text) == (3, "")


@pytest.mark.parametrize("then", [ModelRefused("No."), asyncio.CancelledError()])
async def test_what_a_draft_took_is_on_record_when_no_other_follows(process: Process, then: BaseException) -> None:
    """A20, A23."""
    asked = asyncio.Event()

    async def no_more(request: Any) -> Any:
        if isinstance(then, ModelRefused):
            return then
        asked.set()
        return await asyncio.Event().wait()

    runner = process(LlmAgent("clerk", model=ScriptedModel("Seven.", no_more), output_type=int))
    invocation = await runner.start("go", user="ada", session="s")
    if not isinstance(then, ModelRefused):
        await asked.wait()
        await invocation.cancel()
    result = await invocation.result()
    assert (reason(result), spent(result)) == ("failed" if isinstance(then, ModelRefused) else "cancelled", 1)


async def test_a_draft_that_a_dead_process_had_is_on_record_and_the_next_attempt_makes_its_own(process: Process) -> None:
    """Decision 6."""
    crash = Crash()

    async def dies(request: Any) -> str:
        await crash.here()
        return "Seven again."

    model = ScriptedModel("Seven.", dies, "Seven, really.", final(result=7))
    worker = LlmAgent("clerk", model=model, output_type=int)
    await kill(process, worker, crash, "go")
    alive = process(worker)
    await alive.recover()
    stored = await alive.store.events(key(), hidden=True)
    assert [e.actions.usage.calls for e in stored if e.actions.usage] == [1, 1, 1]
    assert [e.actions.end.reason for e in stored if e.actions.end] == ["completed"]


async def test_tools_come_before_the_answer(process: Process) -> None:
    """In the same step, too; of two answers the first that fits counts."""
    ran: list[str] = []

    async def look() -> str:
        ran.append("look")
        return "seen"

    model = ScriptedModel([final(result="x"), final(result=1), final(result=2), calls("look")])
    result = await ask(process(LlmAgent("clerk", model=model, output_type=int, tools=[look])), "go")
    assert (data_of(result), ran) == ([1], ["look"])
    assert told(result)[1:] == ["Taken.", "The answer was given by an earlier call.", "seen"]


async def test_whoever_calls_the_agent_gets_the_data(process: Process) -> None:
    helper = LlmAgent("helper", model=ScriptedModel(final(result=7)), output_type=int)

    @agent(children=[helper])
    async def front(context: AgentContext) -> str:
        content = await context.call("helper", "how many?")
        return str([part.data for part in content.parts if isinstance(part, DataPart)])

    assert (await ask(process(front), "go")).text == "[7]"


async def test_a_crash_before_the_answer_does_not_count_tries_anew(process: Process) -> None:
    """Decision 6: what was wrong before stands on record, and the model is not asked for it again."""
    crash = Crash()

    class Dies(ScriptedModel):
        async def answer(self, request: Any, *, stream: bool) -> Any:
            if len(self.requests) == 1:
                await crash.here()
            async for piece in super().answer(request, stream=stream):
                yield piece

    model = Dies(final(result="x"), final(result="y"))
    worker = LlmAgent("clerk", model=model, output_type=int, output_retries=1)
    await kill(process, worker, crash, "go")
    alive = process(worker)
    await alive.recover()
    assert len(model.requests) == 2
    (end,) = [e.actions.end for e in await alive.store.events(key()) if e.actions.end]
    assert end.reason == "failed"
    assert await texts(alive) == ["go"]
