import numpy as np

from turnwise.facts.cards import AgentCard
from turnwise.facts.events import Await
from turnwise.facts.sessions import AuthorMark, Exchange, Head, OpenInvocation
from turnwise.facts.tree import AgentTree
from turnwise.matching.match import Match
from turnwise.selection.contextual.gathering import standing, texts_of, turn_of
from turnwise.selection.meaning import Reading
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
    assert standing(request_for(TREE)) == (None, (), None, ())


def test_the_last_speaker_has_it_and_the_others_were_visited() -> None:
    """C17"""
    head = Head(authors=spoke(root=2, orders=6, billing=4), active_agent="orders")
    found = standing(request_for(TREE, head=head))
    assert (found.active, found.visited) == ("orders", ("billing", "root"))


def test_who_was_handed_the_floor_and_has_not_answered_has_it() -> None:
    """A11"""
    head = Head(authors={"orders": AuthorMark(spoke=4), "billing": AuthorMark(handed=5)}, active_agent="orders")
    assert standing(request_for(TREE, head=head)).active == "billing"
    failed = head.model_copy(update={"authors": {"orders": AuthorMark(spoke=4), "billing": AuthorMark(handed=5, failed=6)}})
    assert standing(request_for(TREE, head=failed)).active == "orders"


def test_a_composite_stands_for_those_it_runs() -> None:
    """C19"""
    waiting = OpenInvocation(agent="report", state="waiting", began=1, waits=(("collect", Await(id="w")),))
    head = Head(authors=spoke(collect=3), active_agent="collect", invocations={"i": waiting})
    found = standing(request_for(TREE, head=head))
    assert (found.active, found.awaiting) == ("report", "report")


def test_who_is_gone_or_is_never_resumed_is_passed_over() -> None:
    """A4, A12"""
    gone = standing(request_for(TREE, head=Head(authors=spoke(ghost=3), active_agent="ghost")))
    assert (gone.active, [each.rule for each in gone.passed_over]) == (None, ["unknown"])
    never = standing(request_for(TREE, head=Head(authors=spoke(silent=3), active_agent="silent")))
    assert (never.active, [each.rule for each in never.passed_over]) == (None, ["not_resumable"])


def test_who_asked_which_agent_was_meant_does_not_have_the_conversation() -> None:
    """E5"""
    head = Head(authors=spoke(root=3), active_agent="root", offered=("orders", "billing"))
    assert standing(request_for(TREE, head=head)).active is None


def test_texts_and_what_becomes_of_them() -> None:
    recent = (Exchange(message="one", agent="ghost"), Exchange(message=" "), Exchange(message="two", agent="orders"))
    head = Head(authors=spoke(orders=3), active_agent="orders", last_reply="Which one?", recent=recent)
    request = request_for(TREE, "three", head=head)
    assert texts_of(request) == ["Which one?", "two", "one"]
    match = Match((), np.empty(0), np.empty(0), 0.0, ())
    readings = [Reading(text, np.zeros(2, np.float32), match, 0.0) for text in ("three", *texts_of(request))]
    turn = turn_of(request, standing(request), readings, hits={}, named={}, general="root")
    assert turn.reply is readings[1]
    assert [(past.reading.text, past.agent) for past in turn.past] == [("two", "orders"), ("one", None)]
    assert turn.said.question
