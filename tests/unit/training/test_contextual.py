"""What training/contextual.py is made of; the training itself takes minutes and data that are not here."""

import itertools
import random
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turnwise.selection.contextual.belief import CUES, UNTRAINED
from turnwise.selection.contextual.features import CLAIMS, CONVERSATION_FEATURES, TURN_FEATURES, Features
from turnwise.selection.contextual.trained_model import Coefficients, Model

TRAINING = Path(__file__).resolve().parents[3] / "training"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(TRAINING))
    names = (
        "contextual_phrases", "contextual_dialogues", "contextual_companies", "contextual_fit", "contextual_rollout",
        "contextual_belief", "contextual_splices",
    )  # fmt: skip
    for name in names:
        sys.modules.pop(name, None)
    return {name.removeprefix("contextual_"): import_module(name) for name in names}


def company(modules: dict[str, Any]) -> Any:
    requests = {f"agent_{letter}": [f"request {letter} {number}" for number in range(5)] for letter in "abcd"}
    return modules["dialogues"].Company(dict.fromkeys(requests, ()), requests, ["a stranger"], ["how are you"])


def test_the_same_seed_gives_the_same_dialogues(modules: dict[str, Any]) -> None:
    """E9"""
    made = [[modules["dialogues"].Writer(company(modules), 5).dialogue() for _ in range(1)] for _ in range(2)]
    assert made[0] == made[1]
    assert modules["dialogues"].Writer(company(modules), 6).dialogue() != made[0][0]


def test_dialogues_switch_chat_and_come_back(modules: dict[str, Any]) -> None:
    """C9"""
    writer = modules["dialogues"].Writer(company(modules), 1)
    steps = [step for _ in range(150) for step in writer.dialogue().steps]
    labels = {step.label for step in steps}
    assert {modules["dialogues"].NOBODY, modules["dialogues"].SMALLTALK, modules["dialogues"].STAY, "agent_a"} <= labels
    assert any("back to" in step.user for step in steps)
    assert any(step.awaits for step in steps)


def test_requests_for_unknown_services_are_nobodys(modules: dict[str, Any]) -> None:
    turns = [{"system": "", "user": "a", "agent": "x"}, {"system": "s", "user": "b", "agent": "y"}]
    turns.append({"system": "s", "user": "c", "agent": "y"})
    (talk,) = modules["companies"].real_dialogues([{"turns": turns}], frozenset({"x"}))
    assert [step.label for step in talk.steps] == ["x", modules["dialogues"].NOBODY, None]


def test_elsewhere_no_kind_of_dialogue_gives_both_examples_and_requests(modules: dict[str, Any]) -> None:
    """C9: what users say is not quite like the examples."""
    rows = []
    for kind in itertools.combinations("abcd", 2):
        said = f"of {''.join(kind)}"
        turns = [{"system": "", "user": f"{kind[0]} {said}", "agent": kind[0]}]
        turns.append({"system": "s", "user": f"yes {said}", "agent": kind[0]})
        turns.append({"system": "s", "user": f"{kind[1]} {said}", "agent": kind[1]})
        rows += [{"turns": turns}] * 5
    drills = list(modules["companies"].elsewhere(rows, 8))
    assert len({str(drill.examples) for drill in drills}) > 1
    assert 0 < sum(len(drill.dialogues) for drill in drills) <= len(rows)
    for drill in drills:
        texts = [(agent, text) for agent, texts in drill.examples.items() for text in texts]
        assert all(text.startswith(f"{agent} ") for agent, text in texts)
        learned = {text.split(" of ")[1] for _, text in texts}
        played = [step for talk in drill.dialogues for step in talk.steps]
        assert learned.isdisjoint(step.user.split(" of ")[1] for step in played)
        assert {step.label for step in played} <= drill.examples.keys()


def _matter(modules: dict[str, Any], agent: str, count: int) -> Any:
    steps = [modules["dialogues"].Step(f"reply {agent} {n}" if n else "", f"{agent} {n}", agent) for n in range(count)]
    return modules["dialogues"].Dialogue(tuple(steps))


def test_a_matter_is_interrupted_and_taken_up_again(modules: dict[str, Any]) -> None:
    """C9: every step of the first one is played, in order; the reply that it was left with opens the second."""
    talks = [_matter(modules, agent, 4) for agent in "abc"]
    made = modules["splices"].spliced(talks, 40, random.Random(1))
    assert len(made) == 40
    returned = 0
    for talk in made:
        labels = [step.label for step in talk.steps]
        first = [step for step in talk.steps if step.label == labels[0]]
        assert first[0].system == ""
        left = next(place for place, label in enumerate(labels) if label != labels[0])
        assert talk.steps[left].owner == labels[0]
        assert talk.steps[left].system == f"reply {labels[0]} {left}"
        assert [step.user[-1] for step in first] == [str(number) for number in range(len(first))]
        returned += len(first) == 4
    assert 25 <= returned < 40


def test_short_matters_are_not_interrupted(modules: dict[str, Any]) -> None:
    talks = [_matter(modules, agent, 2) for agent in "ab"]
    assert modules["splices"].spliced(talks, 5, random.Random(1)) == []


def test_what_is_left_open_is_what_a_head_would_keep(modules: dict[str, Any]) -> None:
    """C9: the training reads the same matters as a session's head has at that message."""
    step = modules["dialogues"].Step
    talk = modules["dialogues"].Dialogue(
        (step("", "a 0", "a"), step("Which?", "b 0", "b"), step("Open.", "a 1", "a"), step("Fine.", "c 0", "c"))
    )
    matters = [[(each.agent, each.said) for each in left] for _, left in modules["rollout"].right_matters(talk)]
    assert matters == [[], [], [("a", "Which?")], [("b", "Open.")]]


def test_the_fit_learns_whom_a_claim_speaks_for(modules: dict[str, Any]) -> None:
    chance = np.random.default_rng(2)
    cases = []
    for _ in range(600):
        claims = np.zeros((3, len(CLAIMS)))
        claims[:, CLAIMS.index("message")] = chance.standard_normal(3)
        around, said = np.zeros(len(TURN_FEATURES)), np.zeros(len(CONVERSATION_FEATURES))
        around[0] = 1.0
        said[CONVERSATION_FEATURES.index("asked")] = asked = float(chance.random() < 0.5)
        right = 0 if asked else int(claims[:, CLAIMS.index("message")].argmax())
        cases.append(modules["fit"].Case(Features(claims, 0, around, said, 0.0, 0.0), right))
    model = Model(modules["fit"].fit(modules["fit"].Table(cases), hidden=4, epochs=200), UNTRAINED)
    found = [int(model.scores(case.features).agents.argmax()) == case.target for case in cases]
    assert sum(found) > 0.93 * len(found)


def test_fits_that_are_blended_agree_on_the_mean(modules: dict[str, Any]) -> None:
    chance = np.random.default_rng(4)
    context, around = len(TURN_FEATURES) + len(CONVERSATION_FEATURES), len(TURN_FEATURES)
    sizes = (len(CLAIMS), context, context, around, (context, 3), (3, len(CLAIMS) + 2))
    fits = [Coefficients(*(0.1 * chance.standard_normal(size) for size in sizes)) for _ in range(3)]
    found = Features(
        chance.standard_normal((4, len(CLAIMS))),
        1,
        chance.standard_normal(around),
        chance.standard_normal(len(CONVERSATION_FEATURES)),
        0.0,
        0.0,
    )
    logs = [np.log(Model(each, UNTRAINED).scores(found).agents) for each in fits]
    blend = np.log(Model(modules["fit"].blended(fits), UNTRAINED).scores(found).agents)
    apart = np.mean([each - each[0] for each in logs], axis=0)
    assert blend - blend[0] == pytest.approx(apart)


def test_the_belief_learns_what_counts_and_when_another_matter_begins(modules: dict[str, Any]) -> None:
    """C9: in talks where only requests change the matter, and replies tell more than messages."""
    chance, cues = np.random.default_rng(5), len(CUES)
    tracks = []
    for _ in range(120):
        right: list[int] = []
        logs: list[Any] = []
        both: list[Any] = []
        seen: list[Any] = []
        matter = 0
        for turn in range(8):
            begins = turn == 0 or chance.random() < 0.25
            matter = int(chance.integers(3)) if begins else matter
            for strength, rows in ((1.0 if begins else 0.1, logs), (1.5, both)):
                row = chance.standard_normal(3)
                row[matter] += strength * 2.0
                rows.append(row - np.log(np.exp(row).sum()))
            row = np.zeros(cues)
            row[CUES.index("one")], row[CUES.index("asks")] = 1.0, float(begins)
            seen.append(row)
            right.append(matter)
        arrays = (np.array(rows, np.float32) for rows in (logs, both, seen))
        tracks.append(modules["belief"].Track(*arrays, np.array(right)))
    found = modules["belief"].fit_tracking(tracks)
    assert found.joined > found.message
    assert found.begins["asks"] > 2.0
    assert found.begins["one"] < -1.0
