"""The minimiser against scipy's, and what it promises."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize as reference

from turnwise.matching.heads import Objective, curvature, minimize

Floats = NDArray[np.float32]


def logistic(rows: int = 200, size: int = 12) -> tuple[Objective, Floats]:
    generator = np.random.default_rng(3)
    inputs = generator.normal(size=(rows, size)).astype(np.float32)
    targets = (inputs @ generator.normal(size=size) + generator.normal(size=rows) > 0).astype(np.float32)

    def objective(point: Floats) -> tuple[float, Floats]:
        logits = inputs @ point
        loss = float((np.logaddexp(0.0, logits) - targets * logits).mean()) + 0.005 * float(point @ point)
        gradient = inputs.T @ (1.0 / (1.0 + np.exp(-logits)) - targets) / rows + 0.01 * point
        return loss, gradient.astype(np.float32)

    return objective, inputs


def test_it_finds_the_point_that_scipy_finds() -> None:
    objective, _ = logistic()
    ours = minimize(objective, np.zeros(12, np.float32), tolerance=1e-6)
    theirs = reference(
        lambda point: tuple(np.float64(part) for part in objective(point.astype(np.float32))), np.zeros(12), jac=True
    )
    assert np.abs(ours - theirs.x).max() < 2e-3


def test_a_rough_inverse_of_the_second_derivatives_saves_steps() -> None:
    generator = np.random.default_rng(0)
    turn = np.linalg.qr(generator.normal(size=(40, 40)))[0]
    bend = (turn * np.logspace(0, 4, 40)) @ turn.T
    goal = generator.normal(size=40)

    def objective(point: Floats) -> tuple[float, Floats]:
        away = point - goal
        return 0.5 * float(away @ bend @ away), (bend @ away).astype(np.float32)

    inverse = np.linalg.inv(bend + 5.0 * np.eye(40))
    start = np.zeros(40, np.float32)
    plain = minimize(objective, start, steps=8)
    helped = minimize(objective, start, steps=8, rescale=lambda point: (inverse @ point).astype(np.float32))
    assert objective(helped)[0] < 0.01 * objective(plain)[0]
    assert not start.any(), "the start is left as it is"


@pytest.mark.parametrize("steps", [0, 1, 3, 10])
def test_what_comes_back_is_never_worse_than_the_start(steps: int) -> None:
    objective, _ = logistic()
    start = np.full(12, 2.0, np.float32)
    assert objective(minimize(objective, start, steps=steps))[0] <= objective(start)[0]


def test_it_stays_where_nothing_is_to_be_gained() -> None:
    def flat(point: Floats) -> tuple[float, Floats]:
        return 1.0, np.zeros_like(point)

    assert (minimize(flat, np.ones((2, 3), np.float32)) == 1.0).all()


def test_few_rows_get_no_curvature() -> None:
    _, inputs = logistic(rows=5, size=12)
    assert curvature(inputs, strength=10.0) is None
