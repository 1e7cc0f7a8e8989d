"""Thresholds are found on validation cases (behaviours E3, C18)."""

from collections.abc import Callable

import pytest

from turnwise.facts.cards import AgentCard, Pattern
from turnwise.facts.content import text_content
from turnwise.facts.selections import Verdict
from turnwise.facts.sessions import Head
from turnwise.facts.tree import AgentTree
from turnwise.learning.cases import Case, Turn
from turnwise.learning.tune import TUNABLE, decisions, labelled, options_of, tuned
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.cascade import Cascade
from turnwise.selection.policy import policy_from

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
    """E3: two of nobody's among nineteen are taken by weak patterns; to lose one good case for them is worth it."""
    cascade = Cascade(policy_from({"stages": [{"selector": "patterns", "options": {"threshold": 0.6}}]}), TREE)
    cases = [*(single("surely", "strong") for _ in range(16)), *(single("maybe", "weak") for _ in range(3))]
    found = await tuned(cascade, [*cases, single("maybe not", None), single("maybe, maybe", None)])
    assert found.changes == {"patterns.threshold": 0.8, "accuracy_before": 19 / 21, "accuracy_after": 18 / 21}
