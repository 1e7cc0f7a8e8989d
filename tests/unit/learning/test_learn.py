"""What is learned beside examples: thresholds of the policy and of its segments, and confidences (behaviours C18, H5)."""

import random
from collections.abc import Sequence
from dataclasses import replace

from turnwise.facts.cards import AgentCard, Pattern
from turnwise.facts.content import text_content
from turnwise.facts.messages import MessageContext
from turnwise.facts.sessions import Head
from turnwise.facts.tree import AgentTree
from turnwise.learning.labelled import Labelled
from turnwise.learning.learn import Learned, learn
from turnwise.learning.measures import chosen_of
from turnwise.learning.tune import TunedOption
from turnwise.selection.cascade import Cascade
from turnwise.selection.policy import policy_from
from turnwise.testing.fake_encoder import BagOfWordsEncoder

TREE = AgentTree(
    [
        AgentCard(name="root"),
        AgentCard(name="weak", parent="root", patterns=(Pattern(regex="maybe", confidence=0.65),), examples=("perhaps so",)),
        AgentCard(name="strong", parent="root", patterns=(Pattern(regex="surely", confidence=0.95),), examples=("of course",)),
    ]
)
WORDS = [f"word{number}" for number in range(40)]


class Said:
    """Messages at the beginning of sessions, each by another user."""

    def __init__(self, labelled: Sequence[Labelled], segment: str | None = None) -> None:
        self.labelled = [replace(each, segment=segment) for each in labelled]
        self.context = MessageContext(channel="phone" if segment else "web")

    async def choices(self, cascade: Cascade, which: Sequence[int]) -> list[str | None]:
        found = []
        for index in which:
            message = text_content(self.labelled[index].text, "user")
            found.append(chosen_of(await cascade.decide(head=Head(), message=message, context=self.context), "root"))
        return found


def said(
    count: int = 240,
    seed: int = 1,
    *,
    kinds: Sequence[tuple[str | None, str]] = (
        (None, "never"),
        ("weak", "maybe"),
        ("strong", "surely"),
        ("weak", "maybe"),
        ("strong", "surely"),
        (None, "maybe"),
    ),
) -> list[Labelled]:
    """Messages of several kinds in turn: whose they are, and a word that a pattern may match. None becomes an example."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        agent, word = kinds[number % len(kinds)]
        text = " ".join([word, *chance.sample(WORDS, 5)])
        found.append(
            Labelled(text=text, expected=agent, chosen=None, user=f"u{number}", session="s", at=float(number), opens=False)
        )
    return found


def cascade(**segment: object) -> Cascade:
    stages = [{"selector": "patterns", "options": {"threshold": 0.9}}, {"selector": "semantic", "options": {"threshold": 0.95}}]
    segments = [{"when": {"channel": "phone"}, **segment}] if segment else []
    return Cascade(policy_from({"stages": stages, "segments": segments}), TREE, encoder=BagOfWordsEncoder())


def options(found: Learned) -> tuple[TunedOption, ...]:
    assert found.proposal is not None, found.refusal
    return found.proposal.options


async def test_a_threshold_that_was_too_high_is_lowered() -> None:
    """C18: labels of both kinds show it; the same labels and seed give the same proposal."""
    found = await learn(cascade(), Said(said()), seed=3, max_loss=0.6)
    assert options(found) == (TunedOption("patterns", "threshold", 0.6),)
    assert (found.accuracy_before, found.accuracy_after) == (round(4 / 6, 6), round(5 / 6, 6))
    assert await learn(cascade(), Said(said()), seed=3, max_loss=0.6) == found
    assert len(found.judged_at) == found.judged_by
    refused = await learn(cascade(), Said(said()))
    assert refused.refusal == "(nobody) would lose 50.0 points; a loss of more than 0.0 is refused."


async def test_a_segments_threshold_is_its_own() -> None:
    """C18: callers of the segment are decided by it, so their labels change the segment alone."""
    found = await learn(cascade(name="by phone", default="root"), Said(said(), "by phone"), max_loss=0.6)
    assert options(found) == (TunedOption("patterns", "threshold", 0.6, "by phone"),)


async def test_a_pattern_that_is_always_right_gets_a_higher_confidence() -> None:
    """C18: labels of one kind are enough."""
    found = await learn(cascade(), Said(said(60, kinds=[("weak", "maybe"), ("strong", "surely")])))
    assert found.proposal is not None, found.refusal
    assert found.proposal.patterns == {"weak": {"maybe": 0.97}}
    assert (found.accuracy_before, found.accuracy_after) == (0.5, 1.0)


async def test_few_labels_move_no_threshold() -> None:
    """H5: on a handful of messages a threshold would follow chance."""
    found = await learn(cascade(), Said(said(60)))
    assert found.proposal is None
    assert "No change is better" in found.refusal


async def test_a_threshold_that_errs_nowhere_stays() -> None:
    """H5: what lowers no error stays as it is."""
    found = await learn(cascade(), Said([each for each in said() if each.expected != "weak"]))
    assert found.proposal is None


async def test_wrong_labels_move_no_threshold() -> None:
    """H5: labels at random say nothing of a threshold, or the later ones refuse it."""
    for seed in range(5):
        chance = random.Random(seed)
        labels = [replace(each, expected=chance.choice([None, "weak", "strong"])) for each in said(seed=seed)]
        found = await learn(cascade(), Said(labels))
        assert found.proposal is None, seed
