"""The graph computes BERT: exactly with float32, nearly with int8."""

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

from turnwise.matching.encoder.onnx_graph import Shape, write

Weights = dict[str, NDArray[np.float32]]
SHAPE = Shape(layers=2, heads=4, epsilon=1e-12, max_tokens=16)
TEXTS = [[2, 3], [2, 4, 3], [2, 5, 13, 19, 1, 6, 3], [2, *[7, 8] * 7, 3]]


def vectors(model: bytes) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(["vector"], {"numbers": np.array([text])})[0] for text in TEXTS])


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_with_float32_it_is_the_model(
    weights: Weights, by_hand: Callable[..., NDArray[np.float64]], pooling: str, activation: str
) -> None:
    shape = SHAPE._replace(pooling=pooling, activation=activation)
    expected = np.stack([by_hand(text, pooling=pooling, activation=activation) for text in TEXTS])
    assert np.abs(vectors(write(weights, shape, quantized=False)) - expected).max() < 1e-5


def test_with_int8_it_is_nearly_the_model(weights: Weights, by_hand: Callable[..., NDArray[np.float64]]) -> None:
    found = vectors(write(weights, SHAPE))
    cosines = (found * np.stack([by_hand(text) for text in TEXTS])).sum(axis=1)
    assert cosines.min() > 0.99
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 1e-6


def test_weights_of_layers_stay_where_16_bits_hold_two_products(weights: Weights) -> None:
    model = onnx.load_from_string(write(weights, SHAPE))
    tables = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    layers = [values for name, values in tables.items() if values.dtype == np.int8 and name.endswith(".weight")]
    assert len(layers) == 8
    assert max(int(np.abs(values.astype(int)).max()) for values in layers) == 64


def test_the_same_weights_give_the_same_bytes(weights: Weights) -> None:
    """E9"""
    assert write(weights, SHAPE) == write(dict(reversed(weights.items())), SHAPE)


def test_a_missing_weight_is_named(weights: Weights) -> None:
    with pytest.raises(KeyError, match=r"layer\.2"):
        write(weights, SHAPE._replace(layers=3))


def test_a_column_of_zeros_can_be_rounded(weights: Weights) -> None:
    name = "encoder.layer.0.output.dense.weight"
    assert np.isfinite(vectors(write(weights | {name: np.zeros_like(weights[name])}, SHAPE))).all()
