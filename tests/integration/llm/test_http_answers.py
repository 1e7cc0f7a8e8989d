"""Answers over real HTTP: whole and streamed, by fallbacks, and when services are busy, broken or cut off (A19, A20)."""

from collections.abc import Callable
from typing import Any

import pytest
from llm_http import Line, Wire, calls
from llm_servers import Answer, Fault
from runner_play import ask, reason, texts

from turnwise import Event, RunConfig, Runner
from turnwise.agents.llm import LlmAgent
from turnwise.facts.content import ThinkingPart

Process = Callable[..., Runner]
EVERY = pytest.mark.parametrize("wire", ["openai", "anthropic", "responses"], indirect=True)


async def live(runner: Runner, text: str = "hi") -> tuple[dict[str, str], list[Event]]:
    """The pieces that a reader saw, put together by the id of their whole; and what was stored."""
    pieces: dict[str, str] = {}
    stored: list[Event] = []
    async for event in runner.run(text, user="ada", session="s"):
        if event.partial:
            pieces[event.id] = pieces.get(event.id, "") + event.text
        else:
            stored.append(event)
    return pieces, stored


def thoughts(events: list[Event]) -> str:
    parts = [part for event in events if event.content for part in event.content.parts]
    return "".join(part.text for part in parts if isinstance(part, ThinkingPart))


class Naps:
    """A sleep that takes no time and remembers how long it would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@EVERY
async def test_a_conversation(process: Process, wire: Wire) -> None:
    """What was said comes back as whose it was; the usage that the service counted is on record."""
    wire.say(Answer("Hello Ada.", input_tokens=20, cached_tokens=5, output_tokens=4), "You are Ada.")
    runner = process(LlmAgent("clerk", model=wire.model(), instructions="You are kind."), config=RunConfig(streaming=False))
    first = await ask(runner, "I am Ada.")
    second = await ask(runner, "Who am I?")
    assert (first.text, second.text, reason(second)) == ("Hello Ada.", "You are Ada.", "completed")
    assert wire.sent()[1] == [
        Line("system", "You are kind."),
        Line("user", "I am Ada."),
        Line("assistant", "Hello Ada."),
        Line("user", "Who am I?"),
    ]
    assert all(not body.get("stream") for body in wire.bodies())
    usage = first.events[-1].actions.usage
    assert usage is not None
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.calls) == (20, 5, 4, 1)


@EVERY
async def test_pieces_put_together_are_the_stored_answer(process: Process, wire: Wire) -> None:
    """A19: also of what a model thought."""
    wire.say(Answer("Once upon a time there was a clerk.", thinking="They want a story."))
    events = [e async for e in process(LlmAgent("clerk", model=wire.model())).run("a story", user="ada", session="s")]
    partial, stored = [e for e in events if e.partial], [e for e in events if not e.partial]
    assert len(partial) > 5
    assert {e.id for e in partial} == {stored[-1].id}
    assert "".join(e.text for e in partial) == stored[-1].text == "Once upon a time there was a clerk."
    assert thoughts(partial) == thoughts(stored) == "They want a story."


@EVERY
async def test_what_a_model_thought_goes_back_to_it_within_its_turn(process: Process, wire: Wire) -> None:
    """Sealed as it was, or the service would refuse it; no later turn brings it again."""

    async def look() -> str:
        return "seen"

    wire.say(calls(("look", {}), text="I look.", thinking="Where is it?"), "It is there.", "Gladly.")
    runner = process(LlmAgent("clerk", model=wire.model(), tools=[look]))
    await ask(runner, "where is it?")
    await ask(runner, "thank you")
    within, later = wire.sent()[1:]
    assert Line("assistant", "(thinks) Where is it?") in within
    assert [line.text for line in later] == [
        "where is it?",
        "I look.",
        "(calls) look {}",
        "look: seen",
        "It is there.",
        "thank you",
    ]


@pytest.mark.parametrize("first", [Fault(500), Fault(429, retry_after="60"), Fault(401), Fault(404)], ids=lambda f: f.status)
async def test_the_next_model_answers_when_one_does_not(process: Process, wire: Wire, first: Fault) -> None:
    naps = Naps()
    wire.cast(large=[first] * 4, small=["I am small."])
    spare = LlmAgent("clerk", model=[wire.patient(naps, "large"), wire.model("small")])
    pieces, stored = await live(process(spare))
    assert stored[-1].text == "I am small."
    assert list(pieces.values()) == ["I am small."]
    assert stored[-1].actions.usage is not None
    assert stored[-1].actions.usage.model.endswith(":small")
    asked = [body["model"] for body in wire.bodies()]
    assert asked == ["large"] * (4 if first.status == 500 else 1) + ["small"]


async def test_a_busy_service_is_asked_again_when_it_says(process: Process, wire: Wire) -> None:
    naps = Naps()
    wire.say(Fault(429, retry_after="7"), Fault(529, retry_after="3"), "Now.")
    pieces, stored = await live(process(LlmAgent("clerk", model=wire.patient(naps))))
    assert (stored[-1].text, list(pieces.values())) == ("Now.", ["Now."])
    assert [int(seconds) for seconds in naps.seconds] == [7, 3]
    assert [e.text for e in stored] == ["hi", "Now."]


async def test_a_service_that_stays_broken_fails_the_turn_and_no_more(process: Process, wire: Wire) -> None:
    """A20: the session can be used; nothing of what the service said is told to anybody."""
    naps = Naps()
    wire.say(*[Fault(500, message="secret words")] * 4, "Hello.")
    runner = process(LlmAgent("clerk", model=wire.patient(naps)))
    failed = await ask(runner, "hi")
    assert (reason(failed), failed.error and failed.error.code) == ("failed", "model.unavailable")
    assert "secret words" not in str(failed)
    assert len(naps.seconds) == 3
    assert (await ask(runner, "again")).text == "Hello."
    assert [line.text for line in wire.sent()[-1]] == ["hi", "again"]


@pytest.mark.parametrize("cut", ["broken", "ended", Fault(529)], ids=["broken", "ended", "error"])
async def test_a_stream_cut_in_the_middle_shows_nobody_two_answers_in_one(process: Process, wire: Wire, cut: Any) -> None:
    """A19: the pieces of what broke off belong to no stored event; those of the other one make up the whole."""
    wire.say(Answer("Half an answer that goes on.", cut_after=5, cut=cut), "A whole answer.")
    runner = process(LlmAgent("clerk", model=wire.model()))
    pieces, stored = await live(runner)
    half, whole = pieces.values()
    assert whole == stored[-1].text == "A whole answer."
    assert "Half an answer that goes on.".startswith(half)
    assert list(pieces)[1] == stored[-1].id
    assert await texts(runner) == ["hi", "A whole answer."]


async def test_a_stream_cut_in_the_middle_goes_to_no_other_model_unseen(process: Process, wire: Wire) -> None:
    """With fallbacks, too, the answer that broke off and the next are told apart."""
    wire.cast(large=[Answer("Large and broken words.", cut_after=4), Fault(400)], small=["Small words."])
    runner = process(LlmAgent("clerk", model=[wire.model("large"), wire.model("small")]))
    pieces, stored = await live(runner)
    assert [e.text for e in stored] == ["hi", "Small words."]
    assert pieces[stored[-1].id] == "Small words."
    assert len(pieces) == 2
