"""The decision record."""

from turnwise.facts.selections import Candidate, Exclusion, Selection, Verdict


def test_a_selection_survives_a_round_trip_with_every_verdict() -> None:
    """E1"""
    verdicts = (
        Verdict(selector="patterns", candidates=(Candidate(agent="a", score=0.7, evidence="x"),), ignored=("y",)),
        Verdict(
            selector="resume", outcome="chosen", agent="a", method="resume", passed_over=(Exclusion(agent="b", rule="failed"),)
        ),
    )
    selection = Selection(agent="a", method="resume", confidence=0.8, reason="r", verdicts=verdicts, excluded_count=3)
    assert Selection.model_validate_json(selection.model_dump_json()) == selection


def test_a_newer_selection_is_read_without_loss() -> None:
    written = Selection(agent="a", method="m", confidence=0.8, reason="r").model_dump_json()[:-1] + ',"later_field":"blue"}'
    assert Selection.model_validate_json(written).model_dump_json() == written
