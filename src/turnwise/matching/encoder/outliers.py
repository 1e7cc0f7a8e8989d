"""Finds outlier channels of layers' inputs, and the divisors that even them out before quantization.

All inputs of a layer share one quantization scale. In BERT, a few channels have values five to twenty times larger than the
others, which are then left with a few bits. Such a channel is divided and its row of weights multiplied, so the product is
unchanged (SmoothQuant, Xiao et al. 2023; here only for outliers, by powers of two).
"""

import random
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from turnwise.facts.errors import EncoderError
from turnwise.matching.encoder.onnx_encoder import session_of
from turnwise.matching.encoder.wordpiece import WordPiece

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession

_TEXTS, _MOST_WORDS = 200, 40
_USUAL = 99
"""Percentile of the channels' ranges; channels above it are scaled down to it."""


def divisors(model: bytes, vocabulary: str, tokenizer: WordPiece, max_tokens: int) -> "Mapping[str, NDArray[np.float32]]":
    """Returns the divisors of the tensors with outlier channels: one number per channel, 1 or a power of two.

    The model runs on a fixed random sample of its vocabulary, since outlier channels are the same for every text.

    Args:
        model: The graph with float32 weights.
        vocabulary: The tokens, one a line.
        tokenizer: The model's tokenizer.
        max_tokens: Maximum number of tokens of a text.

    Raises:
        EncoderError: The model cannot be run.
    """
    import numpy as np
    import onnx

    graph = onnx.load_from_string(model)
    names = [node.input[0] for node in graph.graph.node if node.op_type in ("Attention", "MatMul")]
    del graph.graph.output[:]
    graph.graph.output.extend(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names)
    session = session_of(graph.SerializeToString(), "the model as it was published")
    reach: dict[str, NDArray[np.float32]] = {}
    for text in _texts(vocabulary):
        numbers = np.array([tokenizer.numbers(text, max_tokens)], np.int64)
        for name, values in zip(names, _run(session, names, numbers), strict=True):
            farthest = np.abs(values[0]).max(axis=0)
            reach[name] = np.maximum(reach[name], farthest) if name in reach else farthest
    found = {name: _divisor(farthest) for name, farthest in reach.items()}
    return {name: divisor for name, divisor in found.items() if divisor.max() > 1}


def _run(session: "InferenceSession", names: list[str], numbers: "NDArray[np.int64]") -> "list[NDArray[np.float32]]":
    """Runs the model and returns these outputs. Raises EncoderError."""
    try:
        found: list[NDArray[np.float32]] = session.run(names, {"numbers": numbers})
    except Exception as error:  # the library's errors share no class
        problem = f"The model cannot be run: {type(error).__name__}: {error}."
        raise EncoderError(problem, fix="Its weights do not fit its config.json: get the files again.") from error
    return found


def _texts(vocabulary: str) -> Iterator[str]:
    pieces = vocabulary.split("\n")
    words = [piece for piece in pieces if piece.isalpha()] or pieces
    chance = random.Random(0)
    for _ in range(_TEXTS):
        yield " ".join(chance.choices(words, k=chance.randint(1, _MOST_WORDS)))


def _divisor(reach: "NDArray[np.float32]") -> "NDArray[np.float32]":
    import numpy as np

    usual = max(float(np.percentile(reach, _USUAL, method="lower")), 1e-6)
    divisor: NDArray[np.float32] = np.exp2(np.rint(np.log2(np.maximum(reach / usual, 1.0)))).astype(np.float32)
    return divisor
