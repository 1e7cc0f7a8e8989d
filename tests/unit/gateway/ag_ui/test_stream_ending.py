"""How runs end."""

from datetime import UTC, datetime

import pytest

from turnwise.facts.events import Actions, End, Event
from turnwise.facts.usage import Usage
from turnwise.gateway.ag_ui.stream import is_failed, outcome_of, usage_of
from turnwise.runner import Result

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ended(reason: str | None) -> Result:
    return Result("", None if reason is None else End(reason=reason), None, None, "i", ())


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("completed", {"type": "success"}),
        ("clarify", {"type": "success"}),
        ("loop", {"type": "success"}),
        ("limit:transfers", {"type": "success"}),
        (None, {"type": "success"}),
        ("cancelled", {"type": "cancelled"}),
        ("limit:steps", {"type": "cancelled"}),
    ],
)
def test_how_it_ended(reason: str | None, outcome: dict[str, str]) -> None:
    assert not is_failed(ended(reason))
    assert outcome_of(ended(reason), [], []) == outcome


@pytest.mark.parametrize("reason", ["failed", "blocked", "agent.timeout"])
def test_anything_else_has_failed(reason: str) -> None:
    assert is_failed(ended(reason))


def test_what_is_left_to_do() -> None:
    assert outcome_of(ended(None), [{"id": "w"}], ["k"]) == {"type": "interrupt", "interrupts": [{"id": "w"}]}
    assert outcome_of(ended(None), [], ["k"]) == {"type": "success", "pendingToolCallIds": ["k"]}
    assert outcome_of(ended("cancelled"), [{"id": "w"}], ["k"]) == {"type": "cancelled"}
    assert outcome_of(None, [], []) == {"type": "success"}


def took(model: str, asked: int, answered: int) -> Event:
    actions = Actions(usage=Usage(model=model, input_tokens=asked, output_tokens=answered))
    return Event(id="e", author="a", invocation_id="i", created_at=NOW, actions=actions)


def test_what_models_took_is_told_for_each() -> None:
    """What a model did not say is not told as nothing."""
    used = usage_of([took("p:m", 1, 2), took("p:m", 3, 4), took("q:n", 5, 0), took("", 0, 0)])
    assert used == [
        {"provider": "p", "model": "m", "inputTokens": 4, "outputTokens": 6, "totalTokens": 10},
        {"provider": "q", "model": "n", "inputTokens": 5, "totalTokens": 5},
    ]
    assert usage_of([took("p:m", 0, 0)]) is None
