"""Proposals change cards and policies (behaviours C16, C18, H4)."""

import numpy as np
import pytest

from turnwise.facts.cards import AgentCard, LearnedExample, Pattern
from turnwise.facts.tree import AgentTree
from turnwise.learning.labelled import Labelled, trust_in
from turnwise.learning.proposals import Proposal, Proposer
from turnwise.learning.tune import TunedOption
from turnwise.selection.cascade import Cascade
from turnwise.selection.policy import policy_from
from turnwise.testing.fake_encoder import BagOfWordsEncoder

CARD = AgentCard(
    name="orders",
    parent="root",
    examples=("where is my order", "track it"),
    learned=(LearnedExample(text="it is lost", user="ada", session="s", sequence=3), LearnedExample(text="not here yet")),
    patterns=(Pattern(regex="order", confidence=0.9), Pattern(regex="parcel", active=False)),
)
TREE = AgentTree([AgentCard(name="root"), CARD, AgentCard(name="billing", parent="root", examples=("an invoice",))])


def label(text: str, expected: str | None, number: int, **more: object) -> Labelled:
    fields: dict[str, object] = {"user": f"u{number}", "session": "s", "at": float(number), "chosen": None, **more}
    return Labelled(text=text, expected=expected, **fields)  # type: ignore[arg-type]


def proposer(*labelled: Labelled) -> Proposer:
    encoder = BagOfWordsEncoder()
    cascade = Cascade(policy_from({"stages": ["patterns", "semantic"]}), TREE, encoder=encoder)
    vectors = np.asarray(encoder.encode([each.text for each in labelled]), np.float32)
    return Proposer(cascade, labelled, vectors, trust_in(labelled, range(len(labelled)), vectors))


def test_a_card_gets_and_loses_examples_and_confidences() -> None:
    """H4: also examples that were learned before go, and what the user wrote is no plain example."""
    new = LearnedExample(text="has it left", user="ben", session="t", sequence=1)
    proposal = Proposal({"orders": (new,)}, {"orders": ("track it", "it is lost")}, {"orders": {"order": 0.6}})
    card = proposal.tree(TREE).card("orders")
    assert card.examples == ("where is my order",)
    assert card.learned == (CARD.learned[1], new)
    assert [each.confidence for each in card.patterns] == [0.6, CARD.patterns[1].confidence]
    assert proposal.tree(TREE).card("billing") is TREE.card("billing")
    assert (proposal.size, proposal.agents, proposal.is_empty) == (4, ("orders",), False)
    assert Proposal({}, {}, {}).is_empty


def test_options_change_the_policy_or_a_segment() -> None:
    """C18"""
    stages = [{"selector": "semantic", "name": "near", "options": {"threshold": 0.5, "top": 3}}]
    segments = [{"when": {"channel": "phone"}, "options": {"near": {"top": 2}}}]
    spec = policy_from({"stages": stages, "segments": segments})
    options = (TunedOption("near", "threshold", 0.7), TunedOption("near", "threshold", 0.2, "channel=phone"))
    changed = Proposal({}, {}, {}, options).spec(spec)
    assert changed.stages[0].options == {"threshold": 0.7, "top": 3}
    assert changed.segments[0].options == {"near": {"top": 2, "threshold": 0.2}}


def test_what_was_said_in_the_log_carries_its_source() -> None:
    """H4"""
    found = proposer(
        label("please send the bill", "billing", 1, sequence=7), label("another bill of mine", "billing", 2)
    ).examples("corrections", [0, 1])
    assert found.add == {
        "billing": (
            LearnedExample(text="another bill of mine"),
            LearnedExample(text="please send the bill", user="u1", session="s", sequence=7),
        )
    }


@pytest.mark.parametrize(
    ("right", "wrong", "found"),
    [
        (3, 1, {}),  # four messages are too few
        (9, 1, {}),  # as good as it says
        (4, 4, {"orders": {"order": 0.58}}),
        (0, 8, {"orders": {"order": 0.18}}),
    ],
)
def test_a_patterns_confidence_is_how_often_it_was_right(right: int, wrong: int, found: dict[str, dict[str, float]]) -> None:
    """C18: the confidence before counts as two messages."""
    said = [label(f"the order {number}", "orders" if number < right else "billing", number) for number in range(right + wrong)]
    others = [label(f"a parcel {number}", "billing", 50 + number) for number in range(9)]
    made = proposer(*said, *others)
    assert made.patterns(range(len(made.labelled))) == found


def test_a_learned_example_that_only_attracts_others_goes() -> None:
    """C16"""
    wrong = [label(f"it is lost {number}", "billing", number, chosen="orders") for number in range(3)]
    found = proposer(*wrong, label("please send the bill", "billing", 9)).examples("drops", range(4))
    assert found.drop == {"orders": ("it is lost",)}
