import pytest

from turnwise.facts.sessions import ScopedState, Session
from turnwise.stores.sql.append_plan import first_hidden, plan_append
from turnwise.testing.session_store_cases.making import NOW, asked, ended, rewinds, said, writes

SESSION = Session(app="app", user="user", id="s", created_at=NOW, updated_at=NOW, revision=7, last_sequence=4, state={"a": 1})


def test_events_are_numbered_after_the_last() -> None:
    """A31: whatever numbers they carried."""
    events = [said("help", "a"), said("help", "b").replace(sequence=77)]
    made = plan_append(SESSION, events)
    assert [row["sequence"] for row in made.events] == [5, 6]
    assert [row["event_id"] for row in made.events] == [event.id for event in events]
    assert (made.after.last_sequence, made.after.revision, made.after.epoch) == (6, 8, 0)
    assert made.after.head.authors["help"].spoke == 6
    assert made.before is SESSION


def test_the_text_of_an_event_leaves_out_its_number() -> None:
    (row,) = plan_append(SESSION, [said("help", "a").replace(sequence=5)]).events
    assert '"sequence"' not in row["body"]


def test_a_delta_is_what_all_events_write_together() -> None:
    """A24"""
    made = plan_append(SESSION, [writes({"a": None, "app:b": 1, "user:c": 1}), writes({"app:b": None, "temp:x": 1, "d": 2})])
    assert made.delta == ScopedState({"b": None}, {"c": 1}, {"a": None, "d": 2})
    assert made.after.merged_state == {"d": 2, "user:c": 1}
    assert "temp:x" not in made.events[1]["body"]


def test_selections_are_decisions() -> None:
    """E1"""
    made = plan_append(SESSION, [ended(), asked("hi"), asked("x" * 600)])
    assert [(row["sequence"], len(row["text"])) for row in made.decisions] == [(6, 2), (7, 500)]
    assert made.decisions[0]["app"] == "app"


def test_nul_is_left_out_of_the_text_of_a_decision() -> None:
    """E1: PostgreSQL could not store it."""
    assert plan_append(SESSION, [asked("a\0b")]).decisions[0]["text"] == "ab"


def test_a_partial_event_is_refused() -> None:
    """A19"""
    with pytest.raises(ValueError, match="partial"):
        plan_append(SESSION, [said("help", "x").replace(partial=True)])


def test_a_rewind_hides_what_came_before_it_in_the_same_append() -> None:
    """A44"""
    rewound = SESSION.replace(state={}, app_state={"stale": 1})
    events = [writes({"lost": 1, "app:shared": 1}), said("help", "lost"), rewinds(3), writes({"kept": 1})]
    made = plan_append(SESSION, events, rewound)
    assert [(row["sequence"], row["hidden"], row["rewind_from"]) for row in made.events] == [
        (5, True, None),
        (6, True, None),
        (7, False, 3),
        (8, False, None),
    ]
    assert made.hide_from == 3
    assert (made.after.state, made.after.app_state, made.after.last_sequence) == ({"kept": 1}, {"shared": 1}, 8)
    assert made.after.head.authors["help"].spoke == 8


def test_the_lowest_rewind_counts() -> None:
    """A44"""
    assert first_hidden(SESSION, [said("help"), rewinds(9), rewinds(3), rewinds(4)]) == 3
    assert first_hidden(SESSION, [said("help")]) is None


def test_a_rewind_that_hides_nothing_stored_needs_no_other_fold() -> None:
    """A44, E7: it is folded onto the head, and takes back only what came before it in the same append."""
    assert first_hidden(SESSION, [rewinds(5)]) is None
    made = plan_append(SESSION, [rewinds(5), writes({"b": 2})])
    assert (made.hide_from, [row["hidden"] for row in made.events]) == (None, [False, False])
    assert (made.after.state, made.after.last_sequence, made.after.revision) == ({"a": 1, "b": 2}, 6, 8)
    made = plan_append(SESSION, [writes({"a": None, "user:u": 1}), rewinds(5), writes({"c": 3, "app:p": 1})])
    assert (made.hide_from, [row["hidden"] for row in made.events]) == (None, [True, False, False])
    assert made.delta == ScopedState({"p": 1}, {"u": 1}, {"c": 3})
    assert (made.after.state, made.after.user_state, made.after.app_state) == ({"a": 1, "c": 3}, {"u": 1}, {"p": 1})
    assert made.after.head.authors["help"].spoke == 7
