"""How an answer comes along."""

from datetime import UTC, datetime
from typing import Any

from turnwise.facts.callers import Caller
from turnwise.facts.content import text_content
from turnwise.facts.events import Actions, Await, Event
from turnwise.facts.selections import Selection
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.gateway.mcp.tool_calls import CHARACTERS, CHARACTERS_BETWEEN_LINES, ProgressSteps
from turnwise.gateway.redaction import Redactor

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TREE = AgentTree([AgentCard(name="a"), AgentCard(name="office", parent="a", roles=("staff",))])


def event(id_: str, text: str = "", **more: Any) -> Event:
    fields: dict[str, Any] = {"author": "a", "invocation_id": "i", "branch": "1", **more}
    return Event(id=id_, created_at=NOW, content=text_content(text) if text else None, **fields)


def told(*events: Event, caller: Caller | None = None) -> list[str]:
    steps = ProgressSteps(Redactor(caller or Caller(id="k", user="ann"), TREE))
    return [line for each in events if (line := steps.feed(each))]


def chosen(agent: str, reason: str) -> Event:
    selection = Selection(agent=agent, method="m", confidence=1, reason=reason)
    return event("m", "hi", author="user", actions=Actions(selection=selection))


def test_who_was_selected_what_is_said_and_who_goes_on() -> None:
    told_of = told(
        chosen("a", "it fits"),
        event("1", "One moment."),
        event("2", actions=Actions(transfer_to="a")),
        event("3", "Which?", actions=Actions(awaits=Await(id="w"))),
    )
    assert told_of == ["a: it fits", "a: One moment.", "a hands over to a", "a: Which?"]


def test_agents_that_the_caller_cannot_reach_are_not_told_of() -> None:
    events = (chosen("a", "office was busy"), event("2", actions=Actions(transfer_to="office")))
    assert told(*events) == ["a: It was chosen by m."]
    assert len(told(*events, caller=Caller(id="o", role="operator"))) == 2


def test_what_is_private_is_not_told() -> None:
    hidden = {"branch": "1/>b#1"}
    assert told(event("1", "x", **hidden), event("2", "x", partial=True, **hidden), event("3", "x", scope=("t",))) == []


def test_pieces_are_told_now_and_then_and_then_the_whole() -> None:
    pieces = [event("1", "x" * 10, partial=True, offset=10 * number) for number in range(25)]
    lines = told(*pieces, event("1", "x" * 250))
    assert [len(line) - len("a: ") for line in lines] == [
        10,
        10 + CHARACTERS_BETWEEN_LINES,
        10 + 2 * CHARACTERS_BETWEEN_LINES,
        250,
    ]


def test_answers_that_are_written_side_by_side_do_not_begin_again() -> None:
    pieces = [event(id_, id_, partial=True) for _ in range(CHARACTERS_BETWEEN_LINES) for id_ in "ab"]
    assert told(*pieces) == ["a: a", "a: b"]
    wholes = told(*pieces, *pieces[:2])
    assert wholes[2:] == [f"a: {'a' * (CHARACTERS_BETWEEN_LINES + 1)}", f"a: {'b' * (CHARACTERS_BETWEEN_LINES + 1)}"]
    again = told(*pieces, event("a", "whole"), event("a", "x", partial=True))
    assert again[2:] == ["a: whole", "a: x"]


def test_of_what_is_long_the_end_is_told() -> None:
    (line,) = told(event("1", "b" + "x" * CHARACTERS))
    assert line == "a: …" + "x" * CHARACTERS
    *_, last = told(*(event("1", "y" * 400, partial=True) for _ in range(3)))
    assert last == "a: …" + "y" * CHARACTERS
