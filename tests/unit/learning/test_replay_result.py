"""Counts of a replay."""

from turnwise.facts.cards import AgentCard
from turnwise.facts.selections import RequestFacts, Selection
from turnwise.facts.sessions import SessionKey
from turnwise.facts.tree import AgentTree
from turnwise.learning.replay import CLARIFY, KEPT, Place, Redecision, ReplayCounter, ReplayResult
from turnwise.learning.report.pages import replay_page
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy
from turnwise.selection.policy import policy_from, recorded_policy

KEY = SessionKey("app", "ada", "s")
CASCADE = Cascade(named_policy("adk"), AgentTree([AgentCard(name="root")]))


def decided(agent: str, confidence: float = 0.9, **fields: object) -> Selection:
    fields = {"request": RequestFacts(index="i"), "fingerprint": "f", **fields}
    return Selection(agent=agent, method="m", confidence=confidence, **fields)  # type: ignore[arg-type]


def result_of(*pairs: tuple[Selection | None, Selection | None], label: str | None = None, text: str = "hi") -> ReplayResult:
    counter = ReplayCounter(CASCADE)
    for number, (before, after) in enumerate(pairs):
        place = Place(KEY, number, label)
        counter.add(Redecision(place, text, before, after, None if after else "rewound"))
    return counter.result()


def test_a_question_to_the_user_is_a_change_and_never_right() -> None:
    asks = decided("orders", outcome="clarify")
    result = result_of((decided("orders"), asks), label="orders")
    assert [(flip.before, flip.after, flip.wrong) for flip in result.flips] == [("orders", CLARIFY, 1)]
    assert result.gain == -1.0


def test_without_decisions_or_labels_there_are_no_shares() -> None:
    data = result_of((None, None)).data()
    assert (data["replayed"], data["changed_share"], data["gain"], data["accuracy_before"]) == (0, None, None, None)
    assert data["not_replayed"] == {"rewound": 1}


def test_memory_is_bounded_and_counts_are_not() -> None:
    many = [(decided("a"), decided("b"))] * (KEPT + 5)
    result = result_of(*many)
    assert len(result.changed) == KEPT
    assert result.flips[0].count == KEPT + 5
    assert result.flips[0].examples == ("hi",)


def test_margins_count_only_between_equal_inputs() -> None:
    result = result_of((decided("a", 0.9), decided("a", 0.8)), (decided("a", 0.9), decided("a", 0.1, fingerprint="g")))
    assert round(result.largest_confidence_change, 6) == 0.1
    assert (result.equal, result.other_inputs) == (2, 1)


def test_the_page_shows_texts_as_text() -> None:
    """K: what users write is never markup."""
    hostile = "<script>alert(1)</script><img src=x onerror=y>"
    found = replay_page(result_of((decided("a"), decided("<b>b</b>")), text=hostile))
    assert "<script" not in found
    assert "<img" not in found
    assert "&lt;b&gt;b" in found


def test_a_recorded_policy_decides_as_the_policy_did() -> None:
    """E2: the description in the record has all that the policy needs."""
    data = {
        "name": "mine",
        "stages": [{"selector": "contextual", "options": {"nobody": 0.4}}, "clarify", {"selector": "default", "name": "last"}],
        "segments": [{"when": {"channel": ["phone", "fax"]}, "options": {"contextual": {"nobody": 0.7}}, "default": "root"}],
        "default": "root",
    }
    tree = AgentTree([AgentCard(name="root"), AgentCard(name="orders", parent="root", examples=("my order",))])
    for spec in (policy_from(data), *(named_policy(name) for name in ("default", "adk", "staples", "elemental-identity"))):
        cascade = Cascade(spec, tree)
        again = Cascade(recorded_policy(spec.name, cascade.description()), tree)
        assert again.description() == cascade.description()
        assert again.fingerprint == cascade.fingerprint
