"""Answers that are not whole: kept, marked, and nothing is made of what is missing (limits of tokens and of parts)."""

from collections.abc import Callable
from typing import Any

import pytest
from llm_play import calls_of, results_of, told
from runner_play import Crash, ask, key, kill, reason

from turnwise import Limits, RunConfig, Runner
from turnwise.agents.llm import LlmAgent
from turnwise.facts.content import Content, DataPart, TextPart
from turnwise.facts.events import Event
from turnwise.ports.model import LENGTH, ModelReply
from turnwise.testing.models import ScriptedModel, calls

Process = Callable[..., Runner]


def cut(*parts: Any) -> ModelReply:
    """An answer that ran into the model's limit."""
    made = (TextPart(text=part) if isinstance(part, str) else part for part in parts)
    return ModelReply(Content(role="agent", parts=tuple(made)), finish=LENGTH)


def marks(events: tuple[Event, ...]) -> list[str | None]:
    return [event.actions.cut_off for event in events if event.author != "user"]


class Till:
    """Takes money, and remembers how much."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    async def take(self, amount: int = 100) -> str:
        """Takes money."""
        self.taken.append(amount)
        return f"took {amount}"


async def test_an_answer_that_ran_out_of_tokens_is_kept_and_marked(process: Process) -> None:
    runner = process(LlmAgent("clerk", model=ScriptedModel(cut("Once upon a"), "The end."), output_key="story"))
    first = await ask(runner, "a story")
    assert (first.text, reason(first), first.cut_off) == ("Once upon a", "completed", True)
    assert marks(first.events)[0] == "tokens"
    assert (await runner.sessions.get(key())).state == {"story": "Once upon a"}
    second = await ask(runner, "go on")
    assert (second.text, second.cut_off) == ("The end.", False)


@pytest.mark.parametrize("lost", [calls("take", {"amount": 3}), calls("take"), calls("take", '{"amou')], ids=str)
async def test_a_call_that_may_have_lost_arguments_is_not_made(process: Process, lost: Any) -> None:
    """The ones before it are; the model reads why, and calls again. The answer in the end is whole."""
    till = Till()
    first = cut("I take it.", calls("take", {"amount": 1}), lost)
    model = ScriptedModel(first, calls("take", {"amount": 2}), "Done.")
    result = await ask(process(LlmAgent("clerk", model=model, tools=[till.take])), "pay")
    assert (till.taken, result.text, result.cut_off) == ([1, 2], "I take it.\nDone.", False)
    refused = results_of(result.events)[1]
    assert (refused.failed, "ran into its limit of tokens" in str(refused.result)) == (True, True)
    assert marks(result.events)[0] == "tokens"


async def test_no_answer_of_a_type_is_taken_from_what_was_cut_off(process: Process) -> None:
    """Neither as a call nor as text; each is a try, and the model reads why."""
    draft = cut(calls("final_answer", {"result": 7}))
    model = ScriptedModel(draft, cut("It is sev"), calls("final_answer", {"result": 70}))
    result = await ask(process(LlmAgent("clerk", model=model, output_type=int)), "how many?")
    data = [part.data for e in result.events if e.content for part in e.content.parts if isinstance(part, DataPart)]
    assert (data, reason(result)) == ([70], "completed")
    assert "ran into its limit of tokens" in str(told(result)[0])
    assert "ran into your limit of tokens" in model.requests[2].messages[-1].text


@pytest.mark.parametrize("draft", [cut(calls("final_answer", {"result": 7})), cut("It is sev")], ids=["call", "text"])
async def test_a_model_whose_answers_never_end_fails_the_turn_with_what_helps(process: Process, draft: ModelReply) -> None:
    result = await ask(process(LlmAgent("clerk", model=ScriptedModel(*[draft] * 3), output_type=int)), "how many?")
    assert result.error is not None
    assert (reason(result), result.error.code) == ("failed", "model.answer")
    assert "Raise max_tokens" in result.error.message


async def test_after_a_crash_it_is_still_marked(process: Process) -> None:
    """Decision 6: what was said is said again with its mark."""
    crash = Crash()

    async def look() -> str:
        await crash.here()
        return "seen"

    lost = cut(calls("look"), "and then I")
    worker = LlmAgent("clerk", model=ScriptedModel(lost, "Done."), tools=[look])
    await kill(process, worker, crash, "go")
    alive = process(worker)
    await alive.recover()
    said = [e for e in await alive.store.events(key()) if e.attempt == 2 and e.text == "and then I"]
    assert [event.actions.cut_off for event in said] == ["tokens"]


async def test_calls_beyond_the_limit_of_parts_are_neither_made_nor_stored(process: Process) -> None:
    """limits.parts: the last that is stored stands for the rest, and its result tells so."""
    till = Till()
    model = ScriptedModel([calls("take", {"amount": n}) for n in range(5)], "Done.")
    config = RunConfig(limits=Limits(parts=3))
    result = await ask(process(LlmAgent("clerk", model=model, tools=[till.take])), "go", config=config)
    assert (till.taken, len(calls_of(result.events))) == ([0, 1], 3)
    assert told(result)[:2] == ["took 0", "took 1"]
    assert str(told(result)[2]).startswith("It was not called, nor was what you called after it")
    assert marks(result.events)[0] == "parts"
    assert max(len(event.content.parts) for event in result.events if event.content) == 3
    assert model.requests[1].messages[-1].tool_results[2].failed


async def test_an_answer_of_a_type_and_its_results_keep_to_the_limit_of_parts(process: Process) -> None:
    till = Till()
    model = ScriptedModel([*[calls("take")] * 5], [calls("take"), calls("final_answer", {"result": 1})])
    config = RunConfig(limits=Limits(parts=3))
    worker = LlmAgent("clerk", model=model, tools=[till.take], output_type=int)
    result = await ask(process(worker), "go", config=config)
    assert reason(result) == "completed"
    assert max(len(event.content.parts) for event in result.events if event.content) <= 3
