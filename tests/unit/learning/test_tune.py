"""Thresholds are found on validation cases (behaviours E3, C18)."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given, strategies as st

from turnwise.facts.content import text_content
from turnwise.facts.selections import Verdict
from turnwise.facts.sessions import Head
from turnwise.facts.tree import AgentCard, AgentTree, Pattern
from turnwise.learning.cases import Case, Turn
from turnwise.learning.tune import TUNABLE, decisions, labelled, options_of, tuned
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.cascade import Cascade
from turnwise.selection.meaning import Meaning, TextReading
from turnwise.selection.policy import policy_from
from turnwise.testing.fake_encoder import BagOfWordsEncoder

TREE = AgentTree(
    [
        AgentCard(name="root"),
        AgentCard(name="weak", parent="root", patterns=(Pattern(regex="maybe", confidence=0.65),)),
        AgentCard(name="strong", parent="root", patterns=(Pattern(regex="surely", confidence=0.95),)),
    ]
)


def single(text: str, agent: str | None) -> Case:
    return Case((Turn("", text, agent),))


def counting() -> tuple[list[None], Callable[[], None]]:
    told: list[None] = []
    return told, lambda: told.append(None)


async def test_the_threshold_that_is_right_most_often_is_kept() -> None:
    """E3: a weak pattern is right here, so the threshold goes below it; what was changed is told."""
    cascade = Cascade(policy_from({"stages": ["patterns"]}), TREE)
    cases = [single("maybe", "weak"), single("maybe so", "weak"), single("surely", "strong"), single("else", None)]
    told, step = counting()
    found = await tuned(cascade, cases, step=step)
    assert found.changes == {"patterns.threshold": 0.6, "accuracy_before": 0.5, "accuracy_after": 1.0}
    assert found.cascade.spec.stages[0].options == {"threshold": 0.6}
    assert (await found.cascade.decide(head=Head(), message=text_content("maybe", "user"))).agent == "weak"
    assert len(cases) < len(told) <= decisions(cascade, cases)


async def test_nothing_is_changed_for_nothing() -> None:
    """E3: among equals what was there stays, and the cascade it began with is left alone."""
    cascade = Cascade(policy_from({"stages": ["patterns"]}), TREE)
    found = await tuned(cascade, [single("surely", "strong"), single("maybe", None)])
    assert found.changes == {"accuracy_before": 1.0, "accuracy_after": 1.0}
    assert found.cascade.fingerprint == cascade.fingerprint


def test_only_what_can_change_a_decision_is_tried() -> None:
    """E3: thresholds of patterns where there are some; not those of a stage that only reads answers."""
    stages = ["direct", {"selector": "patterns", "name": "first"}, {"selector": "clarify", "options": {"only": "answer"}}]
    spec = policy_from({"stages": stages})
    assert [each[:2] for each in options_of(Cascade(spec, TREE))] == [("first", "threshold")]
    assert options_of(Cascade(spec, AgentTree([AgentCard(name="root")]))) == []


async def test_shares_are_tried_in_fortieths() -> None:
    """E3: of the scores 0.71 and 0.74, the threshold that parts them lies between tenths."""

    class Scored:
        name = "scored"

        def __init__(self, threshold: float) -> None:
            self._threshold = threshold

        async def select(self, request: SelectionRequest) -> Verdict:
            score = float(request.text)
            if score <= self._threshold:
                return Verdict(selector="scored")
            return Verdict(selector="scored", outcome="chosen", agent="weak", method="m", confidence=score)

    tried: list[float] = []

    def make(_tree: AgentTree, threshold: float = 0.1) -> Scored:
        tried.append(threshold)
        return Scored(threshold)

    cascade = Cascade(policy_from({"stages": ["scored"]}), TREE, {"scored": make})
    cases = [single(text, None) for text in ("0.4", "0.5", "0.71")] + [single(text, "weak") for text in ("0.74", "0.85")]
    with_scored = {**TUNABLE, "scored": {"threshold": TUNABLE["semantic"]["threshold"]}}
    found = await tuned(cascade, cases, tunable=with_scored)
    assert found.changes["scored.threshold"] == 0.725
    assert found.changes["accuracy_after"] == 1.0
    assert {0.1, 0.5, 0.9, 0.65, 0.75, 0.675, 0.725} <= set(tried)


def test_messages_that_speak_for_themselves_are_labelled() -> None:
    """E3: single ones, and of dialogues those that open or change; agents that do not exist teach nothing."""
    talk = Case((Turn("", "1", "weak"), Turn("", "2", "weak"), Turn("", "3", "strong"), Turn("", "4", "other")), "d")
    cases = [single("x", None), single("y", "other"), talk]
    assert labelled(cases, TREE) == [("x", None), ("1", "weak"), ("3", "strong")]


@pytest.mark.parametrize("agent", [None, "weak"])
async def test_cases_of_one_kind_set_no_threshold(agent: str | None) -> None:
    """E3: with cases of nobody's alone the best would be to refuse everything, with others alone to refuse nothing."""
    cascade = Cascade(
        policy_from({"stages": [{"selector": "patterns", "options": {"threshold": 0.6 if agent is None else 0.9}}]}), TREE
    )
    found = await tuned(cascade, [single("maybe", agent), single("surely", agent)])
    assert set(found.changes) == {"accuracy_before", "accuracy_after"}
    assert found.cascade is cascade


async def test_few_cases_of_nobodys_count_as_a_fifth() -> None:
    """E3: two of nobody's among twenty are taken by weak patterns; that counts for more than two cases of somebody's."""
    cascade = Cascade(policy_from({"stages": [{"selector": "patterns", "options": {"threshold": 0.6}}]}), TREE)
    cases = [*(single("surely", "strong") for _ in range(16)), *(single("maybe", "weak") for _ in range(2))]
    found = await tuned(cascade, [*cases, single("maybe not", None), single("maybe, maybe", None)])
    assert found.changes == {"patterns.threshold": 0.8, "accuracy_before": 18 / 20, "accuracy_after": 18 / 20}


async def test_what_makes_fewer_decisions_right_is_never_kept() -> None:
    """E3: however much the cases of nobody's count for."""
    cascade = Cascade(policy_from({"stages": [{"selector": "patterns", "options": {"threshold": 0.6}}]}), TREE)
    cases = [*(single("surely", "strong") for _ in range(16)), *(single("maybe", "weak") for _ in range(3))]
    found = await tuned(cascade, [*cases, single("maybe not", None), single("maybe, maybe", None)])
    assert found.changes == {"accuracy_before": 19 / 21, "accuracy_after": 19 / 21}
    assert found.cascade is cascade


@given(
    st.tuples(st.integers(0, 6), st.integers(0, 15), st.integers(0, 2)),
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 1)),
    st.sampled_from([0.5, 0.6, 0.7, 0.8, 0.99]),
)
@example((2, 20, 0), (1, 0, 0), 0.6)  # worth more where nobody's count as a fifth, and fewer are right
def test_a_tuning_is_better_or_the_old_one_stays(
    known: tuple[int, int, int], strange: tuple[int, int, int], threshold: float
) -> None:
    """E3: whatever the cases, and whatever was set before."""
    kinds = zip([("maybe", "weak"), ("surely", "strong"), ("maybe surely", "weak")], known, strict=True)
    pairs: list[tuple[str, str | None]] = [("surely", "strong"), *(pair for pair, count in kinds for _ in range(count))]
    pairs += [(text, None) for text, count in zip(("maybe", "surely", "else"), strange, strict=True) for _ in range(count)]
    spec = policy_from({"stages": [{"selector": "patterns", "options": {"threshold": threshold, "margin": 0.1}}]})
    cascade = Cascade(spec, TREE)
    found = asyncio.run(tuned(cascade, [single(text, agent) for text, agent in pairs]))
    before, after = found.changes["accuracy_before"], found.changes["accuracy_after"]
    assert isinstance(before, float)
    assert isinstance(after, float)
    assert after >= before
    if set(found.changes) == {"accuracy_before", "accuracy_after"}:
        assert found.cascade is cascade
        assert after == before


class Contrary(Meaning):
    """Once it is tuned, it finds that nobody should take anything."""

    worse: float = 0.0

    async def tuned(self, texts: Sequence[str], labels: Sequence[str | None]) -> Meaning:
        self.asked = (list(texts), list(labels))
        after = Contrary(self.tree, self.encoder)
        after.worse = 1.0
        return after

    async def read_message(self, message: str) -> TextReading:
        found = await super().read_message(message)
        return found._replace(match=found.match._replace(novelty=max(found.match.novelty, self.worse)))


async def test_a_matching_that_got_worse_by_tuning_is_not_kept() -> None:
    """E3: and the thresholds are then tuned to the one that was there."""
    cards = [AgentCard(name="root"), AgentCard(name="orders", parent="root", examples=("where is my parcel",))]
    tree = AgentTree([*cards, AgentCard(name="billing", parent="root", examples=("send me the invoice",))])
    meaning = Contrary(tree, BagOfWordsEncoder())
    spec = policy_from({"stages": [{"selector": "semantic", "options": {"threshold": 0.9, "novelty": 0.99}}]})
    cascade = Cascade(spec, tree, meaning=meaning)
    cases = [single("where is my red parcel", "orders"), single("send me an invoice", "billing"), single("xyz", None)]
    found = await tuned(cascade, cases)
    assert meaning.asked[1] == ["orders", "billing", None]
    assert "messages" not in found.changes
    assert found.cascade.meaning is meaning
    assert found.changes["accuracy_after"] == 1.0
    assert "semantic.threshold" in found.changes


async def test_a_tuned_matching_that_changes_no_decision_is_not_kept() -> None:
    """E3: it is not better."""
    cards = [AgentCard(name="root"), AgentCard(name="orders", parent="root", examples=("where is my parcel",))]
    cascade = Cascade(policy_from({"stages": ["semantic"]}), AgentTree(cards), encoder=BagOfWordsEncoder())
    found = await tuned(cascade, [single("where is my parcel", "orders"), single("xyz", None)])
    assert found.changes == {"accuracy_before": 1.0, "accuracy_after": 1.0}
    assert found.cascade is cascade


async def test_a_stated_share_of_messages_that_are_nobodys_weighs_the_accuracy() -> None:
    """E3: with the same cases, the threshold goes up where many messages are nobody's, and stays where few are."""
    cascade = Cascade(policy_from({"stages": [{"selector": "patterns", "options": {"threshold": 0.6}}]}), TREE)
    cases = [*(single("surely", "strong") for _ in range(16)), *(single("maybe", "weak") for _ in range(3))]
    cases += [single("maybe not", None), single("maybe, maybe", None)]
    many = await tuned(cascade, cases, out_of_scope=0.3)
    assert many.changes["out_of_scope"] == 0.3
    assert many.changes["patterns.threshold"] == 0.8
    assert many.changes["accuracy_before"] == pytest.approx(0.7)
    assert many.changes["accuracy_after"] == pytest.approx(0.7 * 16 / 19 + 0.3)
    few = await tuned(cascade, cases, out_of_scope=0.1)
    assert few.changes == {"out_of_scope": 0.1, "accuracy_before": pytest.approx(0.9), "accuracy_after": pytest.approx(0.9)}
    assert few.cascade is cascade
