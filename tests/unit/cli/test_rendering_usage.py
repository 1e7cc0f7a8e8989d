"""What models took, for an event and in all."""

from datetime import UTC, datetime

import pytest

from turnwise.cli.rendering import UsageTotal, usage_of, usage_text
from turnwise.facts.events import Actions, Event
from turnwise.facts.selections import Selection, Verdict
from turnwise.facts.usage import Usage

SMALL = Usage(model="openai:small", input_tokens=1_200, cached_tokens=200, output_tokens=30, cost=0.0012)


def event(usage: Usage | None = None, *asked: Usage) -> Event:
    verdicts = tuple(Verdict(selector="model", usage=each) for each in asked)
    selection = Selection(
        agent="a", method="m", confidence=1.0, reason="", verdicts=verdicts, policy="p", fingerprint="f", tree_version="t"
    )
    actions = Actions(usage=usage, selection=selection if asked else None)
    return Event(id="e", author="a", invocation_id="i", created_at=datetime(2026, 1, 1, tzinfo=UTC), actions=actions)


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (SMALL, "openai:small · 1,200 tokens in (200 cached), 30 out · $0.0012"),
        (Usage(model="mine", input_tokens=1, output_tokens=2), "mine · 1 tokens in, 2 out"),
        (SMALL + Usage(model="other", cost=1.0), "2 calls · 1,200 tokens in (200 cached), 30 out · $1.0012"),
        (SMALL + SMALL, "openai:small · 2 calls · 2,400 tokens in (400 cached), 60 out · $0.0024"),
    ],
)
def test_in_words(usage: Usage, text: str) -> None:
    assert usage_text(usage) == text


def test_the_sum_counts_answers_and_decisions() -> None:
    assert usage_of(event()) is None
    assert usage_of(event(SMALL, SMALL, SMALL)) == SMALL + SMALL + SMALL
    spending = UsageTotal()
    assert [*spending.lines()] == []
    for each in (event(SMALL), event(), event(None, SMALL)):
        spending.add(each)
    (line,) = spending.lines()
    assert line.plain == "models in all: openai:small · 2 calls · 2,400 tokens in (400 cached), 60 out · $0.0024"
