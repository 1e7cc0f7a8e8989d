"""A BERT encoder as an ONNX graph: from the numbers of one text's word pieces to its vector of length 1.

Weights are int8, one scale for each output of a layer and for each word piece, computed here; a layer's inputs become
uint8 as they come, with one scale for all of the text. So the graph takes one text at a time: in a batch a text's vector
would depend on its neighbours.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Weights = dict[str, NDArray[np.float32]]
    Divisors = Mapping[str, NDArray[np.float32]]

# Two products of a uint8 and a weight within this bound fit in 16 bits: processors without a dot product of bytes add
# them up so, and would cut off what is larger. Thus all processors compute the same integers.
_LARGEST = 64
_OPSET, _IR_VERSION = 20, 9


class Shape(NamedTuple):
    """What a BERT's settings say about its graph. `pooling` is `mean` or `cls`; `activation` is `gelu` or `relu`."""

    layers: int
    heads: int
    epsilon: float
    max_tokens: int
    pooling: str = "mean"
    activation: str = "gelu"


class _Writer:
    """Nodes and tensors so far. Every method returns the name of what it adds."""

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
        """`weight` has a row for each input."""
        if not self.quantized:
            product = self.node("MatMul", [inputs, self.constant(f"{name}.weight", weight)], f"{name}.product")
            return self.node("Add", [product, self.constant(f"{name}.bias", bias)], name)
        inputs, weight = self._evened(inputs, weight)
        tensors = [*self._as_bytes(name, weight), self.constant(f"{name}.bias", bias)]
        return self.node("DynamicQuantizeMatMul", [inputs, *tensors], name, domain="com.microsoft")

    def attention(self, inputs: str, name: str, weight: "NDArray[np.float32]", bias: "NDArray[np.float32]", heads: int) -> str:
        """`weight` and `bias` have the queries' columns, then the keys', then the values'."""
        if not self.quantized:
            tensors = [self.constant(f"{name}.weight", weight), self.constant(f"{name}.bias", bias)]
            return self.node("Attention", [inputs, *tensors], name, domain="com.microsoft", num_heads=heads)
        inputs, weight = self._evened(inputs, weight)
        rounded = self.node("DynamicQuantizeLinear", [inputs], f"{name}.input", outputs=3)
        values, scale, zero = self._as_bytes(name, weight)
        tensors = [values, self.constant(f"{name}.bias", bias), f"{rounded}.1", scale, "", f"{rounded}.2", zero]
        return self.node("QAttention", [rounded, *tensors], name, domain="com.microsoft", num_heads=heads)

    def normalized(self, inputs: str, name: str, weights: "Weights", source: str, epsilon: float) -> str:
        tensors = [self.constant(f"{name}.{part}", weights[f"{source}.{part}"]) for part in ("weight", "bias")]
        return self.node("LayerNormalization", [inputs, *tensors], name, axis=-1, epsilon=epsilon)

    def rows(self, numbers: str, name: str, table: "NDArray[np.float32]") -> str:
        """The rows of `table` that `numbers` asks for."""
        from onnx import TensorProto

        if not self.quantized:
            return self.node("Gather", [self.constant(f"{name}.table", table), numbers], name)
        values, scales = _rounded(table, axis=1, largest=127)
        picked = self.node("Gather", [self.constant(f"{name}.table", values), numbers], f"{name}.picked")
        scale = self.node("Gather", [self.constant(f"{name}.scales", scales[:, None]), numbers], f"{name}.scale")
        return self.node("Mul", [self.node("Cast", [picked], f"{name}.float", to=TensorProto.FLOAT), scale], name)

    def _evened(self, inputs: str, weight: "NDArray[np.float32]") -> "tuple[str, NDArray[np.float32]]":
        """The same product of other factors: inputs whose channels reach about equally far, and weights to them."""
        if inputs not in self._divisors:
            return inputs, weight
        divisor = self._divisors[inputs]
        parts = self.constant(f"{inputs}.parts", 1 / divisor)
        return self.node("Mul", [inputs, parts], f"{inputs}.evened"), weight * divisor[:, None]

    def _as_bytes(self, name: str, weight: "NDArray[np.float32]") -> tuple[str, str, str]:
        import numpy as np

        values, scales = _rounded(weight, axis=0, largest=_LARGEST)
        zeros = np.zeros(weight.shape[1], np.int8)
        return (
            self.constant(f"{name}.weight", values),
            self.constant(f"{name}.scale", scales),
            self.constant(f"{name}.zero", zeros),
        )


def _rounded(values: "NDArray[np.float32]", *, axis: int, largest: int) -> "tuple[NDArray[np.int8], NDArray[np.float32]]":
    import numpy as np

    scales = (np.abs(values).max(axis=axis) / largest).astype(np.float32)
    scales[scales == 0] = 1
    rounded = np.rint(values / np.expand_dims(scales, axis)).clip(-largest, largest)
    return rounded.astype(np.int8), scales


def write(weights: "Weights", shape: Shape, *, quantized: bool = True, divisors: "Divisors | None" = None) -> bytes:
    """The model's file. Input `numbers`: int64, 1 × n, n at most `max_tokens`. Output `vector`: float32, 1 × dimensions.

    divisors: of the channels of layers' inputs, by the tensor's name; for a quantized graph.
    The same weights give the same bytes. KeyError names a weight that is missing.
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
    import numpy as np

    words = writer.rows("numbers", "words", weights["embeddings.word_embeddings.weight"])
    # All of a text is of the first kind, so the kinds' table shrinks to a row that the positions can carry.
    positions = weights["embeddings.position_embeddings.weight"][: shape.max_tokens]
    positions = positions + weights["embeddings.token_type_embeddings.weight"][0]
    length = writer.node("Shape", ["numbers"], "length", start=1, end=2)
    ends = [writer.constant("first", np.array([0], np.int64)), length]
    places = writer.node("Slice", [writer.constant("positions", positions), *ends], "places")
    added = writer.node("Add", [words, places], "embedded.sum")
    return writer.normalized(added, "embedded", weights, "embeddings.LayerNorm", shape.epsilon)


def _layer(writer: _Writer, weights: "Weights", shape: Shape, layer: int, hidden: str) -> str:
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
    middle = writer.normalized(added, f"{name}.middle", weights, f"{source}.attention.output.LayerNorm", shape.epsilon)
    wide = writer.linear(middle, f"{name}.wide", weight("intermediate.dense"), bias("intermediate.dense"))
    wide = writer.node({"gelu": "Gelu", "relu": "Relu"}[shape.activation], [wide], f"{name}.active")
    narrow = writer.linear(wide, f"{name}.narrow", weight("output.dense"), bias("output.dense"))
    added = writer.node("Add", [narrow, middle], f"{name}.sum")
    return writer.normalized(added, name, weights, f"{source}.output.LayerNorm", shape.epsilon)


def _pooled(writer: _Writer, shape: Shape, hidden: str) -> None:
    import numpy as np

    if shape.pooling == "mean":
        axes = writer.constant("over", np.array([1], np.int64))
        pooled = writer.node("ReduceMean", [hidden, axes], "pooled", keepdims=0)
    else:
        pooled = writer.node("Gather", [hidden, writer.constant("over", np.array(0, np.int64))], "pooled", axis=1)
    writer.node("LpNormalization", [pooled], "vector", axis=-1, p=2)
