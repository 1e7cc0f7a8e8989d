"""Texts cut in the middle (behaviour D9)."""

import pytest
from hypothesis import given, settings, strategies as st

from turnwise.facts.content import BlobPart, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from turnwise.transcript.fences import attributed
from turnwise.transcript.groups import group_of
from turnwise.transcript.trimming import cut, fit_groups

LONG = "".join(f"{n} " for n in range(5_000))


def test_beginning_and_end_stay_and_the_gap_is_told() -> None:
    shorter = cut("a" * 60 + "b" * 1_000 + "c" * 30, 90)
    assert shorter == "a" * 60 + "[… 1,000 characters are left out here …]" + "c" * 30
    assert cut("a" * 100, 90) == "a" * 100  # telling so would take more


def test_our_marks_stay_around_what_is_cut() -> None:
    shorter = cut(attributed("b", LONG, to_reader=True), 90)
    assert shorter.startswith('<said by="b" to="you">0 1 2')
    assert shorter.endswith("4999 </said>")


@pytest.mark.parametrize(
    "part",
    [
        TextPart(text=LONG),
        ToolResultPart(call_id="k", tool="t", result=LONG),
        ToolResultPart(call_id="k", tool="t", result={"rows": [LONG]}),
        ToolCallPart(call_id="k", tool="t", arguments={"n": 1, "rows": [{"text": LONG}]}),
        ToolCallPart(call_id="k", tool="t", raw=LONG),
    ],
)
def test_every_kind_of_text_can_be_cut(part: Part) -> None:
    (group,) = fit_groups([group_of((), [part])], 200)
    assert 150 <= group.tokens <= 200


def test_thinking_and_files_are_not_cut() -> None:
    parts = (ThinkingPart(text=LONG), BlobPart(data=b"x"), TextPart(text="short"))
    assert fit_groups([group_of(parts, ())], 0) == [group_of(parts, ())]


def test_the_oldest_of_the_longest_is_cut_first() -> None:
    groups = [group_of((), [TextPart(text="word " * length)]) for length in (300, 2_000, 2_000)]
    total = sum(group.tokens for group in groups)
    first = fit_groups(groups, total - 100)
    assert [one == other for one, other in zip(first, groups, strict=True)] == [True, False, True]
    assert total - 150 <= sum(group.tokens for group in first) <= total - 100
    assert fit_groups(groups, total) == groups


TEXTS = st.lists(st.tuples(st.sampled_from(["a", "語", "word "]), st.integers(0, 3_000)), max_size=6)


@given(TEXTS, st.integers(0, 4_000))
@settings(max_examples=100, deadline=None)
def test_it_fits_if_it_can(texts: list[tuple[str, int]], tokens: int) -> None:
    groups = [group_of([TextPart(text=text * times)], ()) for text, times in texts]
    least = sum(group.tokens for group in fit_groups(groups, 0))
    assert sum(group.tokens for group in fit_groups(groups, tokens)) <= max(tokens, least)
