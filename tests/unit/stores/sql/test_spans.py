"""The spans of a log, compared with sets of numbers."""

from itertools import pairwise

from hypothesis import given, strategies as st

from turnwise.stores.sql.spans import (
    FOREVER,
    READ_ACROSS,
    Span,
    Spans,
    all_of,
    fork_of,
    is_visible,
    log_at,
    logs_of,
    runs,
    spans_of,
    spans_text,
    whole,
    without,
)

END = 400
HIDDEN = st.lists(st.tuples(st.integers(1, END), st.integers(0, 120)), max_size=8)


def numbers(spans: Spans) -> dict[int, int]:
    """The visible numbers below the end, with their logs."""
    return {number: span.log for span in spans for number in range(span.first, min(span.last, END) + 1)}


def hide(spans: Spans, hidden: list[tuple[int, int]]) -> Spans:
    for first, length in hidden:
        spans = without(spans, first, first + length)
    return spans


@given(HIDDEN)
def test_what_is_hidden_is_gone_and_the_rest_stays(hidden: list[tuple[int, int]]) -> None:
    """A44"""
    spans = hide(whole(7), hidden)
    expected = set(range(1, END + 1)) - {n for first, length in hidden for n in range(first, first + length + 1)}
    assert set(numbers(spans)) == expected
    assert list(spans) == sorted(spans, key=lambda span: span.first)
    assert all(one.last < two.first for one, two in pairwise(spans))
    assert spans[-1].last == FOREVER, "the session appends to it"
    assert spans_of(spans_text(spans, 7), 7) == spans


@given(HIDDEN, st.integers(1, END), HIDDEN, st.lists(st.integers(1, END), max_size=5))
def test_forks_of_forks(hidden: list[tuple[int, int]], end: int, later: list[tuple[int, int]], excluded: list[int]) -> None:
    """A44: a fork shows what its source showed below its end, whatever either hides later."""
    source = hide(whole(1), hidden)
    fork = fork_of(source, end, excluded, 2)
    expected = {number: 1 for number in numbers(source) if number < end and number not in excluded}
    own = dict.fromkeys(range(max(expected, default=0) + 1, END + 1), 2)
    assert numbers(fork) == expected | own, "its own events follow the last one that it shows"
    assert all(span.folded for span in fork if span.log == 1 and span.last < min(excluded, default=FOREVER))
    assert not any(span.folded for span in fork if span.log == 1 and span.first > min(excluded, default=FOREVER))
    rewound = hide(fork, later)
    second = fork_of(rewound, END, (), 3)
    assert {n: log for n, log in numbers(second).items() if log != 3} == {
        n: log for n, log in numbers(rewound).items() if n < END
    }
    assert logs_of(second) <= {1, 2, 3}
    for number in range(1, END):
        assert log_at(second, number) == numbers(second).get(number)
        assert is_visible(second, 2, number) == (numbers(second).get(number) == 2)
    assert all_of(rewound, 2)[-1] == Span(2, 1)


@given(HIDDEN, st.integers(0, END), st.integers(1, END + 9))
def test_runs_read_exactly_the_spans(hidden: list[tuple[int, int]], after: int, before: int) -> None:
    """In few queries: a short gap is read and skipped."""
    spans = hide(whole(1), hidden)
    queries = runs(spans, after, before)
    shown = [n for run in queries for n in range(run.first, min(run.last, END) + 1) if run.shows(n)]
    assert shown == [n for n in sorted(numbers(spans)) if after < n < before]
    assert all(two.first - one.last - 1 > READ_ACROSS for one, two in pairwise(queries))
    for run in queries:
        assert run.hidden_count == sum(last - first + 1 for first, last in run.hidden)
