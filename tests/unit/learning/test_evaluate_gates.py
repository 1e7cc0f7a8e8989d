"""Bounds on figures (behaviour E3)."""

import pytest
from pydantic import JsonValue

from turnwise.learning.evaluate import KEYS, Gate, figure, gate_from, missed

DATA: dict[str, JsonValue] = {
    "accuracy": 0.9,
    "ece": None,
    "nobody": {"f1": 0.5},
    "by_method": {"a.b": {"cases": 3, "accuracy": 1.0}},
}


def test_a_gate_is_read() -> None:
    """E3"""
    assert gate_from("nobody.f1 = 0.5") == Gate("nobody.f1", 0.5)
    assert gate_from("ece=0.02", at_most=True) == Gate("ece", 0.02, True)
    assert gate_from("by_method.default_fallback.accuracy=1").key == "by_method.default_fallback.accuracy"


@pytest.mark.parametrize("text", ["accuracy", "acuracy=0.9", "accuracy=high", "accuracy=nan", "confusions=1", "nobody=1"])
def test_what_is_no_gate_is_refused(text: str) -> None:
    """E3: before anything is measured."""
    with pytest.raises(ValueError, match=r"not? "):
        gate_from(text)


def test_what_does_not_hold_is_missed() -> None:
    """E3: a bound that is met exactly holds; what could not be measured does not."""
    gates = [Gate("accuracy", 0.9), Gate("accuracy", 0.91), Gate("nobody.f1", 0.4, True), Gate("ece", 0.1, True)]
    assert [(failure.gate, failure.found) for failure in missed(gates, DATA)] == [
        (gates[1], 0.9),
        (gates[2], 0.5),
        (gates[3], None),
    ]


def test_figures_are_found_by_dotted_keys() -> None:
    """E3: a method's name may have dots."""
    assert figure(DATA, "by_method.a.b.cases") == 3.0
    assert figure(DATA, "by_method.c.cases") is None
    assert figure(DATA, "nobody") is None


def test_all_plain_figures_may_be_gated() -> None:
    """E3"""
    assert {"accuracy", "top3_accuracy", "nobody.auroc", "latency_ms.p99", "bounce_rate"} <= set(KEYS)
    assert not {"nobody", "confusions", "by_method"} & set(KEYS)
