"""The conversations of training/talks, as training/contextual_talks.py reads them."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

TRAINING = Path(__file__).resolve().parents[3] / "training"
NAMES = sorted(path.stem for path in (TRAINING / "talks").glob("*.json"))


@pytest.fixture
def talks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(TRAINING))
    for name in ("contextual_phrases", "contextual_dialogues", "contextual_companies", "contextual_talks"):
        sys.modules.pop(name, None)
    return import_module("contextual_talks")


@pytest.mark.parametrize("name", NAMES)
def test_a_company_and_its_conversations_fit_together(talks: Any, name: str) -> None:
    """C9: what is learned from is right in form: everybody who is named exists and can be told by something."""
    found = talks.company(name)
    agents = {agent["name"]: agent for agent in found["agents"]}
    assert len(agents) == len(found["agents"]) >= 3
    assert all(agent["description"] and len(agent["examples"]) >= 6 for agent in agents.values())
    for talk in found["dialogues"]:
        first, *later = talk["turns"]
        assert first["system"] == ""
        assert all(turn["system"].strip() for turn in later)
        assert all(turn["user"].strip() for turn in talk["turns"])
        assert {turn["agent"] for turn in talk["turns"]} <= {*agents, "@smalltalk", "@nobody", None}


def test_a_drill_is_a_company_whose_agents_are_known_by_so_much(talks: Any) -> None:
    few, described = talks.drill(NAMES[0], 3, described=False), talks.drill(NAMES[0], 0, described=True)
    assert {len(texts) for texts in few.examples.values()} == {3}
    assert not few.descriptions
    assert {len(texts) for texts in described.examples.values()} == {0}
    assert all(described.descriptions.values())


def test_a_reply_belongs_to_whoever_had_the_message_before(talks: Any) -> None:
    turns = [
        {"system": "", "user": "a", "agent": "x"},
        {"system": "b", "user": "c", "agent": "@smalltalk"},
        {"system": "d", "user": "e", "agent": "y"},
        {"system": "f", "user": "g", "agent": None},
    ]
    steps = list(talks._steps(turns))
    assert [step.owner for step in steps] == [None, "x", "x", "y"]
    assert [step.label for step in steps] == ["x", talks.SMALLTALK, "y", None]
