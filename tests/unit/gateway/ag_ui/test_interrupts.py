"""Waits as interrupts, and what answers to them mean."""

from typing import Any

import pytest
from ag_ui.core import ResumeEntry

from turnwise.agents.approval import Answer
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.waits import Wait
from turnwise.gateway.ag_ui.interrupts import UNANSWERED, read_answers, waits_for_person

REPLY, OTHER = Wait("i", "w", "reply", "a", ""), Wait("j", "v", "reply", "a", "")
LEAVE, LATE = Wait("i", "k-ok", "confirmation", "a", "confirm"), Wait("i", "l", "tool_result", "a", "look")


def entry(id_: str, payload: Any = None, status: str = "resolved") -> ResumeEntry:
    return ResumeEntry.model_validate({"interruptId": id_, "status": status, "payload": payload})


def test_only_persons_are_interrupted_the_oldest_first() -> None:
    newest_first = [OTHER, LEAVE, LATE, REPLY]
    assert waits_for_person(newest_first) == [LEAVE, REPLY, OTHER]
    assert waits_for_person(newest_first, questions=False) == [LEAVE]


@pytest.mark.parametrize(
    ("payload", "text"), [("yes", "yes"), ({"text": "yes"}, "yes"), ({"answer": 5}, "5"), (5, "5"), ({"a": 1}, '{"a":1}')]
)
def test_an_answer_to_a_question(payload: Any, text: str) -> None:
    (answer,), unknown = read_answers([entry("w", payload)], [REPLY])
    assert (answer.answer, unknown) == (text, [])


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        ({"approved": True}, Answer(True)),
        (True, Answer(True)),
        ({"approved": False, "reason": "No."}, Answer(False, "No.")),
    ],
)
def test_an_answer_to_who_asks_for_leave(payload: Any, answer: Answer) -> None:
    (given,), _ = read_answers([entry("k-ok", payload)], [LEAVE])
    assert given.answer == answer


@pytest.mark.parametrize(
    "entries",
    [
        [entry("w")],
        [entry("w", " ")],
        [entry("k-ok", "yes")],
        [entry("k-ok", {"approved": "true"})],
        [entry("w", "a"), entry("w", "b")],
    ],
)
def test_what_is_no_answer(entries: list[ResumeEntry]) -> None:
    """A person's leave is never guessed."""
    with pytest.raises(RequestInvalid):
        read_answers(entries, [REPLY, LEAVE])


def test_who_does_not_answer() -> None:
    (given,), _ = read_answers([entry("k-ok", status="cancelled")], [LEAVE])
    assert given.answer == Answer(False, UNANSWERED)
    # Whoever asked is stopped, and with him all that his invocation waits for.
    answers, unknown = read_answers(
        [entry("w", status="cancelled"), entry("k-ok", True), entry("v", "yes"), entry("x")], [REPLY, LEAVE, OTHER]
    )
    assert [(each.wait, each.answer) for each in answers] == [(REPLY, None), (OTHER, "yes")]
    assert unknown == ["x"]
