"""Streamed answers with guardrails: held back only as far as one of them may change them (C13, A19)."""

from collections.abc import Callable

import pytest

from turnwise import AgentContext, Content, Runner, agent
from turnwise.facts.content import TextPart, ThinkingPart, ToolCallPart, text_content
from turnwise.facts.events import Event
from turnwise.ports.agent import Agent
from turnwise.ports.context import Show
from turnwise.ports.guardrail import GuardrailVerdict
from turnwise.testing.fakes import FunctionGuardrail

MakeRunner = Callable[..., Runner]
LONG = "Once upon a time there was a number and it was 4711, and nobody could forget that number, not even I. " * 3


def judge(_: str, text: str) -> GuardrailVerdict | None:
    if "forbidden" in text:
        return GuardrailVerdict("block", reason="No.")
    return GuardrailVerdict("rewrite", text_content(text.replace("4711", "#")))


def near(reach: int | None) -> FunctionGuardrail:
    return FunctionGuardrail("near", judge, reach=reach)


def streams(text: str) -> Agent:
    @agent
    async def tells(context: AgentContext) -> None:
        async with context.stream() as out:
            for at in range(0, len(text), 3):
                await out.write(text[at : at + 3])

    return tells


async def live(runner: Runner, text: str = "tell") -> tuple[list[Event], Event]:
    """The partial events, and the stored answer."""
    events = [event async for event in runner.run(text, user="ada", session="s")]
    return [event for event in events if event.partial], next(event for event in reversed(events) if event.content)


async def test_pieces_are_shown_as_soon_as_no_guardrail_can_change_them(make_runner: MakeRunner) -> None:
    """C13, A19: with the offsets of what is shown."""
    pieces, answer = await live(make_runner(streams(LONG), guardrails=[near(9)]))
    shown = "".join(piece.text for piece in pieces)
    assert answer.text == LONG.replace("4711", "#")
    assert answer.text.startswith(shown)
    assert len(shown) > len(answer.text) - 40
    assert len(pieces) > 20
    assert [piece.offset for piece in pieces] == [sum(len(p.text) for p in pieces[:n]) for n in range(len(pieces))]
    assert {piece.id for piece in pieces} == {answer.id}


async def test_who_has_to_see_all_of_it_is_shown_all_of_it(make_runner: MakeRunner) -> None:
    """C13."""
    pieces, answer = await live(make_runner(streams(LONG), guardrails=[near(9), near(None)]))
    assert (pieces, "4711" in answer.text) == ([], False)


async def test_a_block_stops_the_stream(make_runner: MakeRunner) -> None:
    """C13: what comes is the reason."""
    text = LONG + "and then a forbidden word. " + LONG
    pieces, answer = await live(make_runner(streams(text), guardrails=[near(9)]))
    shown = "".join(piece.text for piece in pieces)
    assert (LONG + "and then a ").replace("4711", "#").startswith(shown)
    assert (answer.text, answer.actions.blocked_by) == ("No.", "near")


async def test_a_tag_is_in_no_piece(make_runner: MakeRunner) -> None:
    """B6, C13."""
    pieces, answer = await live(make_runner(streams(LONG + "<next>bob</next>" + LONG), guardrails=[near(9)]))
    assert "next" not in "".join(piece.text for piece in pieces)
    assert answer.text.startswith("".join(piece.text for piece in pieces))


async def test_thoughts_and_arguments_are_not_shown_in_pieces(make_runner: MakeRunner) -> None:
    """C13: they are judged whole."""

    @agent
    async def thinks(context: AgentContext) -> None:
        async def make(show: Show) -> Event:
            event = context.event()
            for part in (
                ThinkingPart(text="4711"),
                ToolCallPart(call_id="1", tool="pay", raw='{"pin": 4711'),
                TextPart(text="Well, " * 9),
            ):
                await show(event.replace(partial=True, content=Content(parts=(part,))))
            return event.with_content(text_content("Well, " * 9))

        await context.once("think", make)

    pieces, answer = await live(make_runner(thinks, guardrails=[near(4)]))
    assert {part.kind for piece in pieces for part in piece.content.parts} == {"text"}  # type: ignore[union-attr]
    assert answer.text.startswith("".join(piece.text for piece in pieces))


async def test_without_guardrails_nothing_is_held_back(make_runner: MakeRunner) -> None:
    pieces, answer = await live(make_runner(streams(LONG)))
    assert "".join(piece.text for piece in pieces) == answer.text == LONG


@pytest.mark.parametrize("said", ["Yes.", ""])
async def test_what_was_shown_of_an_answer_is_forgotten_when_it_is_whole(make_runner: MakeRunner, said: str) -> None:
    """A19: two streams of one turn do not mix."""

    @agent
    async def twice(context: AgentContext) -> str:
        for text in ("one " * 30, "two " * 30):
            async with context.stream() as out:
                for word in text.split():
                    await out.write(word + " ")
        return said

    runner = make_runner(twice, guardrails=[near(4)])
    events = [event async for event in runner.run("x", user="ada", session="s")]
    shown: dict[str, str] = {}
    for event in events:
        if event.partial:
            shown[event.id] = shown.get(event.id, "") + event.text
    stored = {event.id: event.text for event in events if not event.partial}
    assert len(shown) == 2
    assert all(stored[id_].startswith(text) and len(text) > 100 for id_, text in shown.items())
