"""Whether nobody should take a text."""

import numpy as np
import pytest

from turnwise.matching.novelty import REJECTED, SURELY, SURELY_REJECTED, default_gate, fit_gate, signals, tune_gate

UNTRIED = default_gate(20)


def drawn(belonging: int, out_of_scope: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    generator = np.random.default_rng(4)
    strength = np.concatenate([generator.normal(10.0, 1.0, belonging), generator.normal(5.0, 1.0, out_of_scope)])
    return np.stack([strength, np.full(belonging + out_of_scope, 0.5)], axis=1).astype(np.float32)


def test_the_stated_share_of_what_belongs_is_refused() -> None:
    belonging = drawn(2000, 0)
    assert (fit_gate(UNTRIED, belonging, np.ones(len(belonging), np.float32)).novelty(belonging) > 0.5).mean() == pytest.approx(
        REJECTED, abs=0.002
    )


def test_the_stated_share_of_what_belongs_is_surely_refused_however_it_is_spread() -> None:
    generator = np.random.default_rng(7)
    light, heavy = generator.normal(10.0, 1.0, 4000), 10.0 + generator.standard_t(3, 4000)
    for strength in (light, heavy):
        belonging = np.stack([strength, np.full(4000, 0.5)], axis=1).astype(np.float32)
        novelty = fit_gate(UNTRIED, belonging, np.ones(4000, np.float32)).novelty(belonging)
        assert (novelty > 0.5).mean() == pytest.approx(REJECTED, abs=0.002)
        assert (novelty > SURELY).mean() == pytest.approx(SURELY_REJECTED, abs=0.001)


def test_how_steep_the_gate_is_only_many_texts_can_say() -> None:
    generator = np.random.default_rng(8)
    for strength, among_many in ((generator.normal(size=4000), 0.4), (generator.laplace(size=4000), 0.73)):
        belonging = np.stack([strength, np.full(4000, 0.5)], axis=1).astype(np.float32)
        few, many = (
            float(fit_gate(UNTRIED, each, np.ones(len(each), np.float32)).scale / each[:, 0].std())
            for each in (belonging[:150], belonging)
        )
        assert few == pytest.approx(0.5, rel=0.01)
        assert many == pytest.approx(among_many, abs=0.1)


def test_less_belonging_is_more_novel() -> None:
    novelty = fit_gate(UNTRIED, drawn(200, 0), np.ones(200, np.float32)).novelty(
        np.array([[20, 0.6], [10, 0.6], [7, 0.6], [0, 0.6]], np.float32)
    )
    assert (np.diff(novelty) > 0).all()
    assert 0.0 < novelty[0] < 0.01
    assert novelty[-1] > 0.99


def test_with_too_few_texts_the_nearest_phrase_decides() -> None:
    gate = fit_gate(UNTRIED, drawn(10, 0), np.ones(10, np.float32))
    assert gate is UNTRIED
    assert gate.novelty(np.array([[0, 0.9], [0, 0.0]], np.float32)) == pytest.approx([0.0, 1.0], abs=0.01)


def test_what_is_unlike_every_phrase_is_novel_though_its_sign_is_high() -> None:
    gate = fit_gate(UNTRIED, drawn(200, 0), np.ones(200, np.float32))
    assert gate.novelty(np.array([[20, 0.1], [20, 0.6]], np.float32)) == pytest.approx([1.0, 0.0], abs=0.02)


def test_the_more_phrases_the_nearer_must_one_of_them_be() -> None:
    halves = [float(default_gate(count).unlike) for count in (0, 1, 4, 15, 25, 100_000)]
    assert halves == sorted(halves)
    assert halves[0] == halves[1]
    assert halves[-2] == halves[-1]
    assert 0.2 < halves[0] < halves[-1] < 0.4


def test_strangers_that_are_known_count_more_than_the_nearest_phrase() -> None:
    texts = drawn(300, 100)
    out_of_scope = np.arange(400) >= 300
    gate = tune_gate(UNTRIED, texts, ~out_of_scope, out_of_scope)
    assert gate.novelty(np.array([[20, 0.0]], np.float32)) == pytest.approx([0.0], abs=0.01)


def test_tuning_puts_the_threshold_between_right_and_strange() -> None:
    texts = drawn(300, 100)
    out_of_scope = np.arange(400) >= 300
    gate = tune_gate(UNTRIED, texts, ~out_of_scope, out_of_scope)
    assert ((gate.novelty(texts) > 0.5) == out_of_scope).mean() > 0.98


def test_tuning_without_both_kinds_changes_nothing() -> None:
    texts, all_of_them = drawn(20, 0), np.ones(20, bool)
    assert tune_gate(UNTRIED, texts, all_of_them, ~all_of_them) is UNTRIED
    assert tune_gate(UNTRIED, texts, ~all_of_them, all_of_them) is UNTRIED


def test_strangers_that_look_more_at_home_than_the_rest_change_nothing() -> None:
    texts = drawn(50, 50)
    out_of_scope = np.arange(100) < 50
    assert tune_gate(UNTRIED, texts, ~out_of_scope, out_of_scope) is UNTRIED


def test_a_text_that_fits_nothing_has_low_signs_though_its_best_label_is_far_ahead() -> None:
    evidence = np.zeros((2, 3, 4), np.float32)
    evidence[0, 0] = [8.0, 2.0, 9.0, 8.0]
    evidence[0, 1:] = [7.0, 1.0, 8.0, 7.0]
    evidence[1, 0] = [1.0, 0.0, 2.0, 1.0]
    strength = signals(evidence)
    assert strength[0, 0] > strength[1, 0]
    assert strength[:, 1] == pytest.approx([0.9, 0.2])
