"""Opinions made into one."""

import numpy as np
import pytest

from turnwise.matching.heads import HELD_OUT, LABELLED, fit_weights, log_softmax

EXPECTED = np.array([0.5, 0.5], np.float32)


def test_who_is_right_counts_and_who_guesses_does_not() -> None:
    generator = np.random.default_rng(0)
    right = generator.integers(0, 5, 400)
    evidence = generator.normal(size=(400, 5, 2)).astype(np.float32)
    evidence[np.arange(400), right, 0] += 2.0
    weights = fit_weights(evidence, right, EXPECTED, trust=LABELLED)
    assert weights[0] > 1.0
    assert weights[1] < 0.3
    chance = np.exp(log_softmax(evidence @ weights)).max(axis=1)
    hits = (evidence @ weights).argmax(axis=1) == right
    assert chance.mean() == pytest.approx(hits.mean(), abs=0.05)


def test_few_texts_move_little_and_none_nothing() -> None:
    evidence = np.array([[[1.0, 0.0], [0.0, 5.0]]], np.float32)
    assert fit_weights(evidence[:0], np.zeros(0, np.int64), EXPECTED, trust=LABELLED) is EXPECTED
    assert fit_weights(evidence, np.array([0]), EXPECTED, trust=LABELLED) == pytest.approx(EXPECTED, rel=0.3)


def test_what_users_said_moves_more_than_what_was_held_out() -> None:
    generator = np.random.default_rng(1)
    right = generator.integers(0, 5, 40)
    evidence = generator.normal(size=(40, 5, 2)).astype(np.float32)
    evidence[np.arange(40), right, 1] += 2.0
    heard, held_out = (fit_weights(evidence, right, EXPECTED, trust=trust) for trust in (LABELLED, HELD_OUT))
    assert EXPECTED[1] < held_out[1] < 2 * EXPECTED[1] < heard[1]
    assert heard[0] < held_out[0] < EXPECTED[0]


def test_opinions_far_out_of_scale_do_no_harm() -> None:
    evidence = 1e4 * np.random.default_rng(0).normal(size=(60, 3, 2)).astype(np.float32)
    weights = fit_weights(evidence, np.arange(60) % 3, EXPECTED, trust=LABELLED)
    assert np.isfinite(weights).all()
