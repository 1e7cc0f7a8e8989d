"""Builds a BERT encoder as an ONNX graph: from one text's token ids to its vector of length 1.

Weights are int8, with one scale per output of a layer and per token, computed here. A layer's inputs are quantized to
uint8 at run time, with one scale for the whole input. The graph therefore takes one text at a time: in a batch, a text's
vector would depend on the other texts.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Weights = dict[str, NDArray[np.float32]]
    Divisors = Mapping[str, NDArray[np.float32]]

# With weights within this bound, the sum of two uint8 products fits in 16 bits. Processors without a byte dot product
# saturate larger sums. The bound makes all processors compute the same integers.
_LARGEST = 64
_OPSET, _IR_VERSION = 20, 9


class Shape(NamedTuple):
    """Graph parameters from a BERT model's settings. `pooling` is `mean` or `cls`; `activation` is `gelu` or `relu`."""

    layers: int
    heads: int
    epsilon: float
    max_tokens: int
    pooling: str = "mean"
    activation: str = "gelu"


class _Writer:
    """Collects the graph's nodes and tensors. Every method returns the name of the node or tensor that it adds."""

    def __init__(self, *, quantized: bool, divisors: "Divisors") -> None:
        from onnx import NodeProto, TensorProto

        self.quantized, self._divisors = quantized, divisors
        self.nodes: list[NodeProto] = []
        self.tensors: list[TensorProto] = []

    def constant(self, name: str, values: "NDArray[np.generic]") -> str:
        import numpy as np
        from onnx import numpy_helper

        self.tensors.append(numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def node(self, operator: str, inputs: list[str], name: str, *, domain: str = "", outputs: int = 1, **options: Any) -> str:
        from onnx import helper

        names = [name, *(f"{name}.{number}" for number in range(1, outputs))]
        self.nodes.append(helper.make_node(operator, inputs, names, name=name, domain=domain, **options))
        return name

    def linear(self, inputs: str, name: str, weight: "NDArray[np.float32]", bias: "NDArray[np.float32]") -> str:
        """Adds a linear layer. `weight` has one row per input."""
        if not self.quantized:
            product = self.node("MatMul", [inputs, self.constant(f"{name}.weight", weight)], f"{name}.product")
            return self.node("Add", [product, self.constant(f"{name}.bias", bias)], name)
        inputs, weight = self._scale_outliers(inputs, weight)
        tensors = [*self._quantize(name, weight), self.constant(f"{name}.bias", bias)]
        return self.node("DynamicQuantizeMatMul", [inputs, *tensors], name, domain="com.microsoft")

    def attention(self, inputs: str, name: str, weight: "NDArray[np.float32]", bias: "NDArray[np.float32]", heads: int) -> str:
        """Adds attention. The columns of `weight` and `bias` are the queries', the keys', then the values'."""
        if not self.quantized:
            tensors = [self.constant(f"{name}.weight", weight), self.constant(f"{name}.bias", bias)]
            return self.node("Attention", [inputs, *tensors], name, domain="com.microsoft", num_heads=heads)
        inputs, weight = self._scale_outliers(inputs, weight)
        rounded = self.node("DynamicQuantizeLinear", [inputs], f"{name}.input", outputs=3)
        values, scale, zero = self._quantize(name, weight)
        tensors = [values, self.constant(f"{name}.bias", bias), f"{rounded}.1", scale, "", f"{rounded}.2", zero]
        return self.node("QAttention", [rounded, *tensors], name, domain="com.microsoft", num_heads=heads)

    def layer_norm(self, inputs: str, name: str, weights: "Weights", source: str, epsilon: float) -> str:
        tensors = [self.constant(f"{name}.{part}", weights[f"{source}.{part}"]) for part in ("weight", "bias")]
        return self.node("LayerNormalization", [inputs, *tensors], name, axis=-1, epsilon=epsilon)

    def rows(self, numbers: str, name: str, table: "NDArray[np.float32]") -> str:
        """Adds a lookup of the rows of `table` by token id."""
        from onnx import TensorProto

        if not self.quantized:
            return self.node("Gather", [self.constant(f"{name}.table", table), numbers], name)
        values, scales = _round_to_int8(table, axis=1, largest=127)
        picked = self.node("Gather", [self.constant(f"{name}.table", values), numbers], f"{name}.picked")
        scale = self.node("Gather", [self.constant(f"{name}.scales", scales[:, None]), numbers], f"{name}.scale")
        return self.node("Mul", [self.node("Cast", [picked], f"{name}.float", to=TensorProto.FLOAT), scale], name)

    def _scale_outliers(self, inputs: str, weight: "NDArray[np.float32]") -> "tuple[str, NDArray[np.float32]]":
        """Scales down outlier channels of the inputs and scales up their weights; the product is unchanged."""
        if inputs not in self._divisors:
            return inputs, weight
        divisor = self._divisors[inputs]
        parts = self.constant(f"{inputs}.parts", 1 / divisor)
        return self.node("Mul", [inputs, parts], f"{inputs}.evened"), weight * divisor[:, None]

    def _quantize(self, name: str, weight: "NDArray[np.float32]") -> tuple[str, str, str]:
        """Adds a weight as int8 with its scales to the graph, and returns the names of the three constants."""
        import numpy as np

        values, scales = _round_to_int8(weight, axis=0, largest=_LARGEST)
        zeros = np.zeros(weight.shape[1], np.int8)
        return (
            self.constant(f"{name}.weight", values),
            self.constant(f"{name}.scale", scales),
            self.constant(f"{name}.zero", zeros),
        )


def _round_to_int8(values: "NDArray[np.float32]", *, axis: int, largest: int) -> "tuple[NDArray[np.int8], NDArray[np.float32]]":
    """Returns the values as int8 with one scale for each row or column."""
    import numpy as np

    scales = (np.abs(values).max(axis=axis) / largest).astype(np.float32)
    scales[scales == 0] = 1
    rounded = np.rint(values / np.expand_dims(scales, axis)).clip(-largest, largest)
    return rounded.astype(np.int8), scales


def write(weights: "Weights", shape: Shape, *, quantized: bool = True, divisors: "Divisors | None" = None) -> bytes:
    """Returns the bytes of the ONNX file. Deterministic.

    The input `numbers` is int64, 1 × n, with n at most `max_tokens`. The output `vector` is float32, 1 × dimensions.

    Args:
        weights: The model's weights by name.
        shape: The graph's parameters.
        quantized: Whether to quantize weights to int8.
        divisors: Divisors of layers' input channels by tensor name, for a quantized graph.

    Raises:
        KeyError: A weight is missing.
    """
    from onnx import TensorProto, helper

    writer = _Writer(quantized=quantized, divisors=divisors or {})
    hidden = _embedded(writer, weights, shape)
    for layer in range(shape.layers):
        hidden = _layer(writer, weights, shape, layer, hidden)
    _pooled(writer, shape, hidden)
    dimensions = weights["embeddings.word_embeddings.weight"].shape[1]
    graph = helper.make_graph(
        writer.nodes,
        "encoder",
        [helper.make_tensor_value_info("numbers", TensorProto.INT64, [1, "tokens"])],
        [helper.make_tensor_value_info("vector", TensorProto.FLOAT, [1, dimensions])],
        writer.tensors,
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="turnwise")
    return bytes(model.SerializeToString(deterministic=True))


def _embedded(writer: _Writer, weights: "Weights", shape: Shape) -> str:
    """Adds the embeddings of words and positions to the graph, and returns the name of their sum."""
    import numpy as np

    words = writer.rows("numbers", "words", weights["embeddings.word_embeddings.weight"])
    # All tokens have segment type 0, so that one row of the type table is added to the positions.
    positions = weights["embeddings.position_embeddings.weight"][: shape.max_tokens]
    positions = positions + weights["embeddings.token_type_embeddings.weight"][0]
    length = writer.node("Shape", ["numbers"], "length", start=1, end=2)
    ends = [writer.constant("first", np.array([0], np.int64)), length]
    places = writer.node("Slice", [writer.constant("positions", positions), *ends], "places")
    added = writer.node("Add", [words, places], "embedded.sum")
    return writer.layer_norm(added, "embedded", weights, "embeddings.LayerNorm", shape.epsilon)


def _layer(writer: _Writer, weights: "Weights", shape: Shape, layer: int, hidden: str) -> str:
    """Adds one transformer layer to the graph, and returns the name of its output."""
    import numpy as np

    source, name = f"encoder.layer.{layer}", f"layer{layer}"

    def weight(part: str) -> "NDArray[np.float32]":
        return weights[f"{source}.{part}.weight"].T

    def bias(part: str) -> "NDArray[np.float32]":
        return weights[f"{source}.{part}.bias"]

    parts = [f"attention.self.{part}" for part in ("query", "key", "value")]
    together = np.concatenate([weight(part) for part in parts], axis=1), np.concatenate([bias(part) for part in parts])
    seen = writer.attention(hidden, f"{name}.attention", *together, shape.heads)
    part = "attention.output.dense"
    seen = writer.linear(seen, f"{name}.seen", weight(part), bias(part))
    added = writer.node("Add", [seen, hidden], f"{name}.seen.sum")
    middle = writer.layer_norm(added, f"{name}.middle", weights, f"{source}.attention.output.LayerNorm", shape.epsilon)
    wide = writer.linear(middle, f"{name}.wide", weight("intermediate.dense"), bias("intermediate.dense"))
    wide = writer.node({"gelu": "Gelu", "relu": "Relu"}[shape.activation], [wide], f"{name}.active")
    narrow = writer.linear(wide, f"{name}.narrow", weight("output.dense"), bias("output.dense"))
    added = writer.node("Add", [narrow, middle], f"{name}.sum")
    return writer.layer_norm(added, name, weights, f"{source}.output.LayerNorm", shape.epsilon)


def _pooled(writer: _Writer, shape: Shape, hidden: str) -> None:
    """Adds the pooling of the tokens to one vector of length 1 to the graph."""
    import numpy as np

    if shape.pooling == "mean":
        axes = writer.constant("over", np.array([1], np.int64))
        pooled = writer.node("ReduceMean", [hidden, axes], "pooled", keepdims=0)
    else:
        pooled = writer.node("Gather", [hidden, writer.constant("over", np.array(0, np.int64))], "pooled", axis=1)
    writer.node("LpNormalization", [pooled], "vector", axis=-1, p=2)
