"""Linear models of classes."""

import numpy as np
import pytest
from scipy.optimize import minimize as reference
from scipy.special import logsumexp

from turnwise.matching.heads import Classes, Floats, curvature, directions, fit_normal, fit_softmax, log_softmax


def clouds(classes: int = 4, each: int = 30, size: int = 10) -> tuple[Floats, Classes]:
    generator = np.random.default_rng(1)
    middles = generator.normal(size=(classes, size))
    right = np.repeat(np.arange(classes), each)
    return directions((middles[right] + generator.normal(size=(len(right), size))).astype(np.float32)), right


@pytest.mark.parametrize("helped", [False, True])
def test_softmax_regression_is_the_one_scipy_finds(helped: bool) -> None:
    vectors, right = clouds()
    inputs = np.hstack([vectors, np.ones((len(vectors), 1))]).astype(np.float64)

    def loss(point: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        weights = point.reshape(-1, 4)
        scores = inputs @ weights
        fit = (logsumexp(scores, axis=1) - scores[np.arange(len(right)), right]).mean()
        return float(fit + (weights[:-1] ** 2).sum() / (2.0 * 20.0 * len(right)))

    rescale = curvature(vectors, strength=20.0) if helped else None
    ours = fit_softmax(vectors, right, 4, strength=20.0, steps=60, rescale=rescale)
    theirs = reference(loss, np.zeros(inputs.shape[1] * 4))
    assert loss(np.vstack([ours.weights, ours.bias]).ravel().astype(np.float64)) == pytest.approx(theirs.fun, abs=1e-4)


def test_one_pass_finds_classes_that_lie_apart_and_leaves_out_rows_of_no_class() -> None:
    vectors, right = clouds()
    head = fit_normal(vectors, right, 4)
    assert (head.scores(vectors).argmax(axis=1) == right).mean() > 0.8
    noise = np.random.default_rng(2).normal(size=(500, 10)).astype(np.float32)
    with_noise = fit_normal(np.vstack([noise, vectors]), np.concatenate([np.full(500, -1), right]), 4)
    assert np.allclose(head.weights, with_noise.weights, atol=1e-4)


def test_one_vector_a_class_is_enough_for_one_pass() -> None:
    vectors = np.eye(5, dtype=np.float32)
    assert (fit_normal(vectors, np.arange(5), 5).scores(vectors).argmax(axis=1) == np.arange(5)).all()


def test_high_scores_have_probabilities() -> None:
    assert np.exp(log_softmax(np.array([[1000.0, 1000.0]], np.float32)))[0] == pytest.approx([0.5, 0.5])
