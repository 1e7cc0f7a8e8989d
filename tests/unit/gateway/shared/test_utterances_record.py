"""What is on record of an answer."""

import pytest
from logs import event

from turnwise.facts.callers import Caller
from turnwise.facts.events import Actions, ErrorInfo, Event
from turnwise.facts.selections import Selection
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.facts.usage import Usage
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.stream import DecisionInfo, failure_text, token_usage

USER_VIEW = Redactor(Caller(id="c"), AgentTree([AgentCard(name="a")]))


def took(asked: int, answered: int, cached: int) -> Event:
    usage = Usage(input_tokens=asked, output_tokens=answered, cached_tokens=cached)
    return event("a", "x").replace(actions=Actions(usage=usage))


def test_what_models_took_adds_up() -> None:
    assert token_usage([took(3, 2, 1), event("a", "y"), took(30, 20, 10)]) == (33, 11, 22)
    assert token_usage([]) == (0, 0, 0)


def test_nobody_was_selected_yet() -> None:
    behind = DecisionInfo(session_id="s", message_id="m").known("i", None, USER_VIEW, pending=True)
    assert behind.model_dump() == {
        "session_id": "s",
        "message_id": "m",
        "invocation_id": "i",
        "agent": None,
        "reason": None,
        "pending": True,
    }


def test_who_was_selected() -> None:
    selection = Selection(agent="a", method="direct", confidence=1.0, reason="It was named.")
    behind = DecisionInfo(session_id="s", message_id="m").known("i", selection, USER_VIEW, pending=False)
    assert (behind.agent, behind.reason) == ("a", "It was named.")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("limit:turns", "The answer ran into the limit 'turns'."),
        ("cancelled", "The answer was cancelled."),
        ("failed", "The agent failed."),
    ],
)
def test_why_there_is_no_answer(reason: str, words: str) -> None:
    assert failure_text(reason, ErrorInfo(code="agent.failed", message="secret"), USER_VIEW) == words
    assert failure_text("failed", None, USER_VIEW) == "There is no answer."
