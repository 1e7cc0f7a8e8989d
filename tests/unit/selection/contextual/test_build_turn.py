import numpy as np

from turnwise.facts.cards import AgentCard
from turnwise.facts.events import Await
from turnwise.facts.sessions import RECENT_CHARACTERS, AuthorMark, Exchange, Head, OpenInvocation
from turnwise.facts.tree import AgentTree
from turnwise.matching.match import Match
from turnwise.matching.spelling import CorrectedText
from turnwise.selection.contextual.situation import build_turn, context_texts, joined_text, user_messages
from turnwise.selection.meaning import TextReading
from turnwise.selection.resume import conversation_state
from turnwise.testing.selector_suite import request_for

TREE = AgentTree(
    [
        AgentCard(name="root", kind="llm"),
        AgentCard(name="orders", parent="root"),
        AgentCard(name="billing", parent="root"),
        AgentCard(name="report", parent="root", kind="sequential"),
        AgentCard(name="collect", parent="report"),
        AgentCard(name="silent", parent="root", resume="never"),
    ]
)


def spoke(**at: int) -> dict[str, AuthorMark]:
    return {name: AuthorMark(spoke=place) for name, place in at.items()}


def test_nobody_stands_anywhere_at_the_start() -> None:
    """A1"""
    assert conversation_state(request_for(TREE)) == (None, (), None, ())


def test_the_last_speaker_has_it_and_the_others_were_visited() -> None:
    """C17"""
    head = Head(authors=spoke(root=2, orders=6, billing=4), active_agent="orders")
    found = conversation_state(request_for(TREE, head=head))
    assert (found.active, found.visited) == ("orders", ("billing", "root"))


def test_who_was_handed_the_floor_and_has_not_answered_has_it() -> None:
    """A11"""
    head = Head(authors={"orders": AuthorMark(spoke=4), "billing": AuthorMark(handed=5)}, active_agent="orders")
    assert conversation_state(request_for(TREE, head=head)).active == "billing"
    failed = head.replace(authors={"orders": AuthorMark(spoke=4), "billing": AuthorMark(handed=5, failed=6)})
    assert conversation_state(request_for(TREE, head=failed)).active == "orders"


def test_a_composite_stands_for_those_it_runs() -> None:
    """C19"""
    waiting = OpenInvocation(agent="report", state="waiting", began=1, waits=(("collect", Await(id="w")),))
    head = Head(authors=spoke(collect=3), active_agent="collect", invocations={"i": waiting})
    found = conversation_state(request_for(TREE, head=head))
    assert (found.active, found.awaiting) == ("report", "report")


def test_who_is_gone_or_is_never_resumed_is_passed_over() -> None:
    """A4, A12"""
    gone = conversation_state(request_for(TREE, head=Head(authors=spoke(ghost=3), active_agent="ghost")))
    assert (gone.active, [each.rule for each in gone.passed_over]) == (None, ["unknown"])
    never = conversation_state(request_for(TREE, head=Head(authors=spoke(silent=3), active_agent="silent")))
    assert (never.active, [each.rule for each in never.passed_over]) == (None, ["not_resumable"])


def test_who_asked_which_agent_was_meant_does_not_have_the_conversation() -> None:
    """E5"""
    head = Head(authors=spoke(root=3), active_agent="root", offered=("orders", "billing"))
    assert conversation_state(request_for(TREE, head=head)).active is None


def test_texts_and_what_becomes_of_them() -> None:
    recent = (
        Exchange(message="one", agent="ghost"),
        Exchange(message=" "),
        Exchange(message="two", agent="orders", before="Two of what?"),
    )
    head = Head(authors=spoke(orders=3), active_agent="orders", last_reply="Which one?", recent=recent)
    request = request_for(TREE, "three", head=head)
    messages, lines = ["three", "two", "one"], ["Which one?", "Which one? three", "Two of what? two"]
    assert (user_messages(request), context_texts(request)) == (messages, lines)
    match = Match((), np.empty(0), np.empty(0), 0.0, ())
    readings = {
        text: TextReading(text, np.zeros(2, np.float32), match, 0.0, CorrectedText(text)) for text in (*messages, *lines)
    }
    turn = build_turn(request, conversation_state(request), readings, hits={}, named={}, general="root")
    assert turn.reply is readings["Which one?"]
    assert turn.joined is readings["Which one? three"]
    assert [past.joined for past in turn.past] == [readings["Two of what? two"], None]
    assert [past.reply_wording.question for past in turn.past] == [True, False]
    assert [(past.reading.text, past.agent) for past in turn.past] == [("two", "orders"), ("one", None)]
    assert turn.reply_wording.question


def test_of_a_long_reply_the_end_is_joined_with_the_message() -> None:
    """C9: the question stands at its end, and encoders read only so far."""
    text = joined_text("word " * 500 + "Which one?", "this " * 500)
    assert len(text) <= 2 * RECENT_CHARACTERS + 1
    assert "Which one? this" in text
    assert joined_text(" ", "this") == ""


def test_where_it_is_decided_inside_of_a_turn_the_message_is_not_its_own_past() -> None:
    """C9: the head of a team's selector holds the message already, answered by nobody."""
    recent = (Exchange(message="one", agent="orders"), Exchange(message="two", before="Which one?"))
    head = Head(authors=spoke(orders=3), active_agent="orders", last_reply="Which one?", recent=recent)
    assert user_messages(request_for(TREE, "two", head=head)) == ["two", "one"]
    assert context_texts(request_for(TREE, "two", head=head)) == ["Which one?", "Which one? two"]
    assert "two" in user_messages(request_for(TREE, "three", head=head))
