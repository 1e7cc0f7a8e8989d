from datetime import UTC, datetime
from typing import Any

from turnwise.facts.content import Content, TextPart, ToolResultPart
from turnwise.facts.events import Actions, Await, Branch, Event, Rewind, StepRecord
from turnwise.facts.usage import Usage
from turnwise.runner.record.journal import inherited_steps, journal_of, public_event

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def event(sequence: int, author: str, text: str | None = None, branch: str = "1", **actions: Any) -> Event:
    content = None if text is None else Content(parts=(TextPart(text=text),))
    return Event(
        id=f"e{sequence}",
        author=author,
        invocation_id="i",
        created_at=NOW,
        content=content,
        branch=Branch("" if author == "user" else branch),
        actions=Actions(**actions),
        sequence=sequence,
    )


def test_a_journal_holds_what_each_branch_said_in_order() -> None:
    """Decision 6."""
    journal = journal_of([event(1, "user", "hi"), event(2, "a", "one"), event(3, "b", "two", "1/b"), event(4, "a", "three")])
    assert {branch: [e.text for e in said] for branch, said in journal.said.items()} == {"1": ["one", "three"], "1/b": ["two"]}


def test_replies_are_kept_by_the_wait_they_answer() -> None:
    """A42."""
    result = Content(role="user", parts=(ToolResultPart(call_id="c", result=1),))
    journal = journal_of(
        [
            event(1, "user", "hi"),
            event(2, "a", "name?", awaits=Await(id="w")),
            event(3, "user", "Ada", answers="w"),
            event(4, "user").with_content(result),
        ]
    )
    assert {id_: reply.text for id_, reply in journal.replies.items()} == {"w": "Ada", "c": ""}


def test_a_wait_stated_again_is_no_second_question() -> None:
    """A41: a parallel sibling was answered first."""
    wait = Await(id="w")
    journal = journal_of([event(1, "a", "name?", awaits=wait), event(2, "a", awaits=wait)])
    assert [e.sequence for e in journal.said[Branch("1")]] == [1]


def test_steps_and_finished_branches_are_found() -> None:
    """A41, decision 6."""
    journal = journal_of(
        [
            event(1, "a", steps=(StepRecord(key="1/a:pay", value=3),)),
            event(2, "b", "x", "1/b", finished=("1/a",)),
        ]
    )
    assert journal.steps == {"1/a:pay": StepRecord(key="1/a:pay", value=3)}
    assert journal.finished == {"1/a"}


def test_the_public_reads_that_there_was_a_step_and_not_what_it_gave() -> None:
    """Decision 6: what is said, and what else the event does, stays."""
    paid = StepRecord(key="1:pay", value={"card": "4111"}, state_delta={"n": 1})
    said = event(1, "a", "paid", steps=(paid,))
    left = public_event(said)
    assert left.actions.steps == (StepRecord(key="1:pay", state_delta={"n": 1}),)
    assert left.replace(actions=said.actions) == said
    bare = event(2, "a", "x", steps=(StepRecord(key="1:x", says=True),))
    assert public_event(bare) is bare


def test_a_turn_gets_the_message_it_began_with() -> None:
    """Decision 6: an agent that runs again is asked the same thing."""
    journal = journal_of(
        [
            event(1, "user", "start"),
            event(2, "a", "name?", awaits=Await(id="w")),
            event(3, "user", "Ada", answers="w"),
            event(4, "a", "over", transfer_to="b"),
            event(5, "b", "code?", branch="2", awaits=Await(id="v")),
            event(6, "user", "4711", answers="v"),
        ]
    )
    assert {turn: message.text for turn, message in journal.messages.items()} == {1: "start", 2: "Ada"}


def test_the_outcome_of_a_finished_branch_is_what_it_and_its_children_said_last() -> None:
    """A41: what was called in private is not its answer."""
    journal = journal_of(
        [
            event(1, "c", "first", "1/c"),
            event(2, "d", "second", "1/c/d", next="e"),
            event(3, "p", "private", "1/c/>p#1", usage=Usage(model="m")),
            event(4, "c", None, "1/c", escalate=True),
            event(5, "x", "other", "1/cx"),
        ]
    )
    outcome = journal.outcome(Branch("1/c"))
    assert (outcome.text, outcome.next, outcome.escalated, outcome.moved) == ("second", "e", True, False)
    assert journal.outcome(Branch("1/c/>p#1")).text == "private"
    assert (outcome.model_calls, journal.outcome(Branch("1/c/d")).model_calls) == (1, 0), (
        "what it took counts, whoever was called"
    )


def test_another_attempt_has_the_steps_of_those_before_and_nothing_else() -> None:
    """Decision 6: work on record is not repeated; what was said, and decided on it, is."""
    pay, mail = StepRecord(key="1:pay", value=3, state_delta={"paid": True}), StepRecord(key="2:mail", value=4)
    decision = StepRecord(key="?2:select#1", value={})
    log = [
        event(1, "user", "hi"),
        event(2, "a", steps=(pay,)),
        event(3, "a", transfer_to="b"),
        event(4, "b", steps=(mail,), branch="2"),
        event(5, "b", "half an answer", steps=(decision,), finished=("2/c",), branch="2"),
    ]
    assert inherited_steps(log, since=3) == (mail,)
    begins = event(6, "b", rewind=Rewind(from_sequence=4, invocation_id="i"), steps=(mail,))
    journal = journal_of([*log[:3], begins])
    assert journal.steps == {"1:pay": pay, "2:mail": mail}
    assert journal.inherited == frozenset({"2:mail"})
    assert (journal.finished, journal.said) == (frozenset(), {})
    assert inherited_steps([*log[:3], begins], since=3) == (mail,), "the next one has them, too"


def test_what_an_agent_is_told_stands_for_the_message_that_only_chose_it() -> None:
    """E5: after a clarifying question; a turn that is taken up again has it from the log."""
    told = Content(parts=(TextPart(text="my parcel"),))
    chosen = event(1, "user", "2", brief=told)
    reply = event(3, "user", "1", brief=told, answers="w")
    journal = journal_of([chosen, event(2, "a", "which?", awaits=Await(id="w")), reply, event(4, "a", transfer_to="b")])
    assert {turn: message.text for turn, message in journal.messages.items()} == {1: "my parcel", 2: "my parcel"}
    assert journal.replies["w"].text == "my parcel"
