import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.agents.llm.summary import Summarizing, older_part
from turnwise.facts.content import text_content
from turnwise.facts.events import Event
from turnwise.ports.model import LENGTH, ModelReply
from turnwise.testing.models import ScriptedModel
from turnwise.transcript.compile import compiled
from turnwise.transcript.view import Budget, View

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VIEW = View("clerk", "1", "now")


def log(*invocations: str) -> list[Event]:
    return [
        Event(id=f"e{n}", author="clerk", invocation_id=i, created_at=NOW, content=text_content(i), sequence=n)
        for n, i in enumerate(invocations, 1)
    ]


def test_the_older_half_is_summed_up_to_the_end_of_an_invocation() -> None:
    older = older_part(log(*"aabbccdd", "now"), VIEW)
    assert [event.invocation_id for event in older] == ["a", "a", "b", "b"]
    assert [e.invocation_id for e in older_part(log(*"aaabbb", "now"), VIEW)] == ["a", "a", "a"]
    assert [e.invocation_id for e in older_part(log(*"aabbbb", "now"), VIEW)] == ["a", "a"]


def test_what_is_summed_up_already_or_too_little_is_not() -> None:
    assert older_part(log("now"), VIEW) == ()
    assert older_part(log(*"aaaa", "now"), VIEW) == ()
    assert older_part(log(*"aabb", "now"), VIEW, above=2) == ()
    assert older_part(log(*"aabb", "now"), VIEW, above=1) != ()


@given(st.lists(st.sampled_from([*"abc", "now"]), max_size=20), st.integers(0, 20))
def test_an_invocation_that_runs_is_never_summed_up(invocations: list[str], above: int) -> None:
    older = older_part(log(*invocations), VIEW, above=above)
    assert all(event.invocation_id != "now" for event in older)
    assert not older or (older[-1].sequence or 0) > above


@pytest.mark.parametrize(
    ("text", "finish", "kept"),
    [(" short ", "stop", "short"), ("cut", LENGTH, "cut […]"), ("x" * 5_000, "stop", "x" * 4_000 + " […]")],
)
async def test_notes_whose_end_is_missing_say_so(text: str, finish: str, kept: str) -> None:
    """They are read in place of the conversation."""
    events = log(*"aabbccdd", "now")
    budget = Budget(tokens=10_000, events=9)
    summarizing = Summarizing(ScriptedModel(ModelReply(text_content(text), finish=finish)), budget)
    summarizing.consider(events, compiled(events, VIEW, text_content("hi", "user"), budget), VIEW, budget)
    for _ in range(20):
        await asyncio.sleep(0)
    summary = summarizing.put(events[-1]).actions.summary
    assert summary is not None
    assert (summary.text, summary.until) == (kept, 4)
