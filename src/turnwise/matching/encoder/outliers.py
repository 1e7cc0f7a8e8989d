"""What a layer's inputs are divided by, channel by channel, before they are rounded.

All inputs of a layer share one scale when they become bytes, and in a BERT a few of its channels reach five to twenty times as
far as the others, which are then left with a few bits. Such a channel is divided, and its row of the weights multiplied, so
that the product is the same (SmoothQuant, Xiao et al. 2023; here only what sticks out is moved, by powers of two).
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
"""In percent: as far as so many channels reach, the others should reach, too."""


def divisors(model: bytes, vocabulary: str, tokenizer: WordPiece, max_tokens: int) -> "Mapping[str, NDArray[np.float32]]":
    """For each tensor that goes into a layer and has channels that stick out: one number a channel, 1 or a power of two.

    model: the graph with weights of float32. It reads words of its vocabulary at random, the same ones each time: what sticks
    out does so for every text. EncoderError when it cannot be run.
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
