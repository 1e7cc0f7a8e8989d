"""What fits into a budget (behaviour D9), and what a summary does to it."""

from typing import NamedTuple

from logs import asks, call, event, numbered, result

from turnwise.facts.content import Content, TextPart, text_content
from turnwise.facts.events import USER, Branch, Event, Summary
from turnwise.transcript.compile import compiled_log
from turnwise.transcript.groups import Group
from turnwise.transcript.trimming import choose_groups
from turnwise.transcript.view import Budget, View, visible_log

ME = View("a", Branch("1"), "now")
OPENING = text_content("And now?", "user")
PLENTY = Budget(100_000, 1_000)


class Choice(NamedTuple):
    """All shown groups, and what else was found out."""

    groups: list[Group]
    dropped: int
    stop: int | None
    covers: int | None
    summarized: bool


def choice(*events: Event, budget: Budget, opening: Content | None = OPENING, limit: int | None = None) -> Choice:
    log, current = compiled_log(numbered(events), ME)
    made = choose_groups(log.earlier, visible_log(current, ME), ME, budget, opening, limit=limit)
    groups = [*made.summary, *log.earlier.groups[made.first :], *made.groups]
    return Choice(groups, made.dropped, made.stop, made.covers, bool(made.summary))


def texts(made: Choice) -> list[str]:
    return [part.text for group in made.groups for part in (*group.said, *group.heard) if isinstance(part, TextPart)]


def past(*texts: str) -> list[Event]:
    return [asks(text, invocation=f"i{n}") for n, text in enumerate(texts)]


def tokens(groups: list[Group]) -> int:
    return sum(group.tokens for group in groups)


NOW = asks("And now?", invocation="now")
RUN = (
    event("a", call("k1"), invocation="now"),
    event("a", result("k1", "long " * 2_000), invocation="now"),
)


def test_the_newest_is_kept_and_nothing_older_than_what_does_not_fit() -> None:
    made = choice(*past("old", "long " * 100, "new"), NOW, budget=Budget(100, 1_000))
    assert texts(made) == ["new", "And now?"]
    assert (made.dropped, made.stop) == (2, 2)


def test_events_are_counted_too() -> None:
    made = choice(*past("one", "two", "three"), NOW, budget=PLENTY._replace(events=3))
    assert texts(made) == ["two", "three", "And now?"]
    assert (made.dropped, made.stop) == (1, 1)


def test_a_call_is_kept_with_its_results_or_not_at_all() -> None:
    past_run = [each.replace(invocation_id="i0") for each in RUN]
    made = choice(*past_run, event("a", "So it is.", invocation="i0"), NOW, budget=Budget(1_000, 1_000))
    assert texts(made) == ["So it is.", "And now?"]


def test_the_run_and_its_opening_are_kept_before_all_else() -> None:
    others = [event("b", f"{n} by the way", invocation="now", branch="0") for n in range(50)]
    made = choice(*past("old"), NOW, *others, *RUN, event(USER, "Well?", invocation="now"), budget=Budget(900, 1_000))
    assert texts(made) == ["And now?", "Well?"]
    assert any(group.said for group in made.groups)
    assert tokens(made.groups) <= 900
    assert made.stop is not None


def test_an_opening_that_is_nowhere_stands_before_the_run() -> None:
    log = (
        asks("hello", invocation="now"),
        event("b", "hi", invocation="now", branch="0"),
        event("a", "mine", invocation="now"),
    )
    assert texts(choice(*log, budget=PLENTY)) == ["hello", '<said by="b">hi</said>', "And now?", "mine"]
    assert texts(choice(*log[:2], budget=PLENTY))[-1] == "And now?"


def test_a_summary_takes_the_place_of_what_it_covers() -> None:
    made_by = event("a", summary=Summary(text="They <said> hello.", until=2), invocation="i2")
    log = (*past("one", "two", "three"), made_by, NOW)
    made = choice(*log, budget=PLENTY)
    assert texts(made) == ['<said note="summary">They &lt;said> hello.</said>', "three", "And now?"]
    assert (made.covers, made.summarized, made.dropped) == (2, True, 0)
    own_run = event("a", summary=Summary(text="All.", until=4), invocation="now")
    assert texts(choice(*past("one", "two", "three"), NOW, own_run, budget=PLENTY))[1:] == ["And now?"]


def test_a_summary_counts_while_it_stands_among_what_is_shown() -> None:
    made_by = event("a", summary=Summary(text="They said hello.", until=1), invocation="i1")
    log = (*past("one"), made_by, *past("two", "long " * 300, "four"), NOW)
    assert texts(choice(*log, budget=Budget(500, 1_000))) == ["four", "And now?"]
    assert choice(*log, budget=Budget(1_000, 1_000)).summarized


def test_a_summary_that_is_too_long_is_cut_and_one_that_never_fits_left_out() -> None:
    made_by = event("a", summary=Summary(text="very long " * 1_000, until=1), invocation="i1")
    log = (*past("one"), made_by, NOW)
    made = choice(*log, budget=Budget(300, 1_000))
    assert "characters are left out here" in texts(made)[0]
    assert tokens(made.groups) <= 300
    tight = choice(*log, budget=Budget(60, 1_000))
    assert texts(tight) == ["And now?"]
    assert (tight.covers, tight.summarized) == (1, False)
    empty = event("a", summary=Summary(text=" ", until=1), invocation="i1")
    assert texts(choice(*past("one"), empty, NOW, budget=PLENTY)) == ["And now?"]


def test_without_an_opening_no_less_fits() -> None:
    log = (*past("one", "two", "three"), NOW)
    with_ = choice(*log, budget=Budget(80, 1_000), opening=text_content("long " * 20))
    without = choice(*log, budget=Budget(80, 1_000), opening=None)
    assert len(without.groups) >= len(with_.groups) - 1
    assert (without.stop or 0) <= (with_.stop or 0)
