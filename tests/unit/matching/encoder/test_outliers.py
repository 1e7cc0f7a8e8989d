"""Channels that stick out do not cost the others their bits."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from turnwise.matching.encoder import onnx_graph
from turnwise.matching.encoder.export import divisors
from turnwise.matching.encoder.onnx_encoder import session_of
from turnwise.matching.encoder.onnx_graph import Shape
from turnwise.matching.encoder.wordpiece import WordPiece

Weights = dict[str, NDArray[np.float32]]
SHAPE = Shape(layers=2, heads=4, epsilon=1e-12, max_tokens=16)
TEXTS = [[2, 3], [2, 4, 3], [2, 5, 13, 19, 1, 6, 3], [2, *[7, 8] * 7, 3]]
VOCABULARY = "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh", *(f"##{letter}" for letter in "abcdefgh")])


def vectors(model: bytes) -> NDArray[np.float32]:
    session = session_of(model, "small")
    return np.concatenate([session.run(["vector"], {"numbers": np.array([text])})[0] for text in TEXTS])


def divided(weights: Weights) -> dict[str, NDArray[np.float32]]:
    exact = onnx_graph.write(weights, SHAPE, quantized=False)
    return dict(divisors(exact, VOCABULARY, WordPiece(VOCABULARY), SHAPE.max_tokens))


@pytest.fixture
def uneven(weights: Weights) -> Weights:
    """One channel of two layers' inputs reaches a hundred times as far as the others, and the layers look at it as little."""
    changed: Weights = {}
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        norm, wide = f"{layer}.attention.output.LayerNorm.weight", f"{layer}.intermediate.dense.weight"
        changed |= {name: weights[name].copy() for name in (norm, wide)}
        changed[norm][5] *= 100
        changed[wide][:, 5] /= 100
    return weights | changed


def test_a_channel_that_sticks_out_is_divided_by_a_power_of_two(uneven: Weights) -> None:
    divisor = divided(uneven)["layer0.middle"]
    assert divisor[5] >= 16
    assert np.flatnonzero(divisor > 1).tolist() == [5]
    assert (np.log2(divisor) % 1 == 0).all()


def test_the_vectors_are_then_nearer_to_the_models(uneven: Weights) -> None:
    exact = vectors(onnx_graph.write(uneven, SHAPE, quantized=False))
    plain, evened = (
        (vectors(onnx_graph.write(uneven, SHAPE, divisors=found)) * exact).sum(axis=1) for found in (None, divided(uneven))
    )
    assert 1 - evened.mean() < (1 - plain.mean()) / 2


def test_weights_of_float32_stay_as_they_are(uneven: Weights) -> None:
    assert onnx_graph.write(uneven, SHAPE, quantized=False, divisors=divided(uneven)) == onnx_graph.write(
        uneven, SHAPE, quantized=False
    )


def test_the_same_model_gives_the_same_divisors(uneven: Weights) -> None:
    """E9"""
    one, other = divided(uneven), divided(uneven)
    assert one.keys() == other.keys()
    assert all((one[name] == other[name]).all() for name in one)


def test_where_nothing_sticks_out_it_is_nearly_the_model(by_hand: Callable[..., NDArray[np.float64]], weights: Weights) -> None:
    found = vectors(onnx_graph.write(weights, SHAPE, divisors=divided(weights)))
    assert (found * np.stack([by_hand(text) for text in TEXTS])).sum(axis=1).min() > 0.99
