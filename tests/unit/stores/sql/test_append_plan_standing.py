from turnwise.facts.events import USER, Await, Event
from turnwise.facts.sessions import Session
from turnwise.stores.sql.append_plan import changed_states, plan_append
from turnwise.testing.session_store_cases.making import NOW, asked, ended, rewinds, said

EMPTY = Session(app="app", user="user", id="s", created_at=NOW, updated_at=NOW)


def after(session: Session, *events: Event) -> Session:
    return plan_append(session, events).after


def test_what_is_new_stands_in_the_row_of_its_decision() -> None:
    made = plan_append(EMPTY, [asked(), asked("more", invocation="i-2"), ended(invocation="i-2")])
    assert [(row["sequence"], row["state"]) for row in made.decisions] == [(1, "running"), (2, "completed")]
    assert {row["user_id"] for row in made.decisions} == {"user"}
    assert made.state_changes == []


def test_what_began_before_is_found_by_where_it_began() -> None:
    waiting = plan_append(after(EMPTY, said("help"), asked()), [said("help", awaits=Await(id="w"))])
    assert [(row["at_sequence"], row["state"]) for row in waiting.state_changes] == [(2, "waiting")]
    over = plan_append(waiting.after, [said(USER, "yes", answers="w"), ended()])
    assert [(row["at_sequence"], row["state"]) for row in over.state_changes] == [(2, "completed")]


def test_events_on_the_way_change_nothing() -> None:
    """So an event costs no more for it."""
    session = after(EMPTY, asked())
    assert plan_append(session, [said("help", "a"), said("help", transfer_to="sales")]).state_changes == []
    assert plan_append(session, [asked("more")]).state_changes == []


def test_what_an_append_begins_and_takes_back_never_was() -> None:
    made = plan_append(EMPTY, [asked(), rewinds(1)])
    assert [(row["state"], row["changed_at"]) for row in made.decisions] == [(None, None)]
    assert made.state_changes == []


def test_one_id_begins_again_at_another_place() -> None:
    """Whatever the ids say, each place stands for itself."""
    before = after(EMPTY, asked(), ended(), asked())
    base = after(EMPTY, asked())
    rewound = base.replace(last_sequence=4)
    assert changed_states(before, rewound, [(4, rewinds(2))], base.head) == {1: "running"}
