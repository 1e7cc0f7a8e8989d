"""Drills are played in processes, one for each encoder; the result is the same as in one."""

import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from turnwise.matching import novelty, smalltalk
from turnwise.matching.encoder.onnx_encoder import SHIPPED
from turnwise.selection.contextual.belief import UNTRAINED

TRAINING = Path(__file__).resolve().parents[3] / "training"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(TRAINING))
    return import_module("contextual_processes")


def drill(modules: Any, name: str, apart: str, *texts: str) -> Any:
    dialogues = import_module("contextual_dialogues")
    steps = [dialogues.Step("What can I do?" if number else "", text, agent) for number, (agent, text) in enumerate(TURNS)]
    examples = {"billing": [*texts, "pay my invoice"], "travel": ["book a flight", "a train to Rome"]}
    return modules.Drill(name, examples, [dialogues.Dialogue(tuple(steps))], apart=apart)


TURNS = (("billing", "I want to pay an invoice"), ("travel", "a train to Paris please"), ("billing", "the invoice again"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An encoder's folder, with all that is fitted to it."""
    found = tmp_path / "apart"
    shutil.copytree(SHIPPED, found)
    for file in (smalltalk.MODEL_FILE, novelty.TEXTS_FILE, novelty.VECTORS_FILE):
        shutil.copy(file, found)
    return tmp_path


def test_the_cases_are_in_the_order_of_the_drills_whichever_encoder_reads_them(modules: Any, folder: Path) -> None:
    """E9"""
    drills = [
        drill(modules, "one", "apart", "my bill"),
        drill(modules, "two", "", "an account"),
        drill(modules, "three", "apart"),
    ]
    game = modules.PlaySettings("all", UNTRAINED, None, 5, frozenset({1}))
    encoder = modules.packaged_encoder()
    alone = [
        case
        for number, each in enumerate(drills)
        for case in modules.cases(
            modules.play_drill(modules.prepare_drill(each, encoder), UNTRAINED, None, 5 + number, harsh=number == 1),
            each.weight,
        )
    ]
    with modules.DrillProcesses(drills, folder) as players:
        found, again = players.cases(game), players.cases(game)
        assert len(players.tracks()) == 3
    assert len(found) == len(alone) == 9
    for one, two, three in zip(found, again, alone, strict=True):
        assert (one.features.claims == two.features.claims).all()
        assert (one.features.claims == three.features.claims).all()
        assert (one.target, one.weight) == (three.target, three.weight)
