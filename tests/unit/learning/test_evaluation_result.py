"""An evaluation as plain data (behaviour E3)."""

import json

from turnwise.facts.cards import AgentCard, Skill
from turnwise.facts.tree import AgentTree
from turnwise.learning.evaluate import CONFUSIONS, evaluation, subject_of
from turnwise.learning.measures import Outcome
from turnwise.selection.cascade import Cascade
from turnwise.selection.policy import policy_from

TREE = AgentTree(
    [
        AgentCard(name="root", examples=("hi",)),
        AgentCard(name="a", parent="root", examples=("x", "y"), skills=(Skill(name="s", examples=("z",)),)),
    ]
)


def test_all_figures_are_plain_data() -> None:
    """E3: under the names that are documented; what cannot be measured is null; floats are rounded."""
    cascade = Cascade(policy_from({"name": "p", "stages": ["direct"]}), TREE)
    subject = subject_of(cascade, "own", {"ghost": 2}, {"messages": 3})
    third = Outcome("t", "a", "a", "a", (("a", 1 / 3),), method="m", ms=1.0)
    data = evaluation(subject, [third]).data()
    assert json.loads(json.dumps(data)) == data == {
        "cases": 1,
        "accuracy": 1.0,
        "in_scope_accuracy": 1.0,
        "top3_accuracy": 1.0,
        "switch_accuracy": None,
        "stay_accuracy": None,
        "after_error": None,
        "also_recall": None,
        "also_precision": None,
        "switch_rate": None,
        "bounce_rate": None,
        "nobody": {"auroc": None, "f1": None, "recall": None},
        "ece": 0.666667,
        "latency_ms": {"p50": 1.0, "p99": 1.0},
        "by_method": {"m": {"cases": 1, "accuracy": 1.0}},
        "by": {},
        "confusions": [],
        "policy": "p",
        "fingerprint": cascade.fingerprint,
        "agents": 1,
        "examples": 4,
        "history": "own",
        "tuned": {"messages": 3},
        "unknown": {"ghost": 2},
    }  # fmt: skip


def test_the_most_frequent_confusions_are_kept() -> None:
    """E3: the list does not grow with the agents; the measures keep all of them."""
    cascade = Cascade(policy_from({"stages": ["direct"]}), TREE)
    outcomes = [Outcome(f"t{number}", f"a{number}", "root", None) for number in range(CONFUSIONS + 5)]
    found = evaluation(subject_of(cascade, "own", {}, None), [*outcomes, outcomes[7]])
    listed = found.data()["confusions"]
    assert isinstance(listed, list)
    assert len(listed) == CONFUSIONS
    assert listed[0] == {"expected": "a7", "chosen": None, "count": 2, "example": "t7"}
    assert len(found.measures.confusions) == CONFUSIONS + 5
