"""BERT in torch, for training: the texts of a batch lie one behind another, without padding."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch.nn import functional

from turnwise.matching.encoder.wordpiece import WordPiece

LONGEST = 32
"""Word pieces of a text. Longer texts are cut."""
FROZEN = 2
"""The embeddings and this many of the first layers stay as they are."""
DROPOUT = 0.1
EPSILON = 1e-12


class PackedBert:
    """Encodes texts as vectors of length 1. weights: by name; those of layers that are trained require gradients."""

    def __init__(self, weights: Mapping[str, np.ndarray], tokenizer: WordPiece, layers: int, heads: int) -> None:
        # In a fixed order: the norm of all gradients is a sum, and sums round by their order.
        self.weights = {name: _tensor(weights[name]) for name in sorted(weights)}
        self._tokenizer, self._layers, self._heads = tokenizer, layers, heads
        for name, tensor in self.weights.items():
            tensor.requires_grad_(_is_trained(name))
        self.training = True

    def trained(self) -> list[torch.Tensor]:
        return [tensor for tensor in self.weights.values() if tensor.requires_grad]

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        """Returns one row per text."""
        rows = [self._tokenizer.numbers(text, LONGEST) for text in texts]
        lengths = torch.tensor([len(row) for row in rows])
        batch = _Batch(lengths)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = self._embedded(torch.tensor([piece for row in rows for piece in row]), batch)
            for layer in range(self._layers):
                with torch.set_grad_enabled(torch.is_grad_enabled() and layer >= FROZEN):
                    hidden = self._layer(hidden, f"encoder.layer.{layer}", batch, drop=layer >= FROZEN)
        sums = torch.zeros(len(rows), hidden.shape[1]).index_add(0, batch.row, hidden.float())
        return functional.normalize(sums / lengths[:, None])

    def _embedded(self, pieces: torch.Tensor, batch: "_Batch") -> torch.Tensor:
        words = self.weights["embeddings.word_embeddings.weight"][pieces]
        places = self.weights["embeddings.position_embeddings.weight"][batch.place]
        return self._normed(words + places + self.weights["embeddings.token_type_embeddings.weight"][0], "embeddings")

    def _layer(self, hidden: torch.Tensor, name: str, batch: "_Batch", *, drop: bool) -> torch.Tensor:
        attended = self._linear(
            self._attention(hidden, f"{name}.attention.self", batch, drop=drop), f"{name}.attention.output.dense"
        )
        hidden = self._normed(hidden + self._dropped(attended, drop=drop), f"{name}.attention.output")
        inner = functional.gelu(self._linear(hidden, f"{name}.intermediate.dense"))
        return self._normed(hidden + self._dropped(self._linear(inner, f"{name}.output.dense"), drop=drop), f"{name}.output")

    def _attention(self, hidden: torch.Tensor, name: str, batch: "_Batch", *, drop: bool) -> torch.Tensor:
        query, key, value = (
            batch.spread(self._linear(hidden, f"{name}.{part}"), self._heads) for part in ("query", "key", "value")
        )
        weights = query @ key.transpose(2, 3) / math.sqrt(query.shape[3]) + batch.hidden_from
        weights = self._dropped(weights.softmax(3), drop=drop)
        return batch.gathered(weights.to(value.dtype) @ value)

    def _linear(self, hidden: torch.Tensor, name: str) -> torch.Tensor:
        return functional.linear(hidden, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _normed(self, hidden: torch.Tensor, name: str) -> torch.Tensor:
        weight, bias = self.weights[f"{name}.LayerNorm.weight"], self.weights[f"{name}.LayerNorm.bias"]
        return functional.layer_norm(hidden.float(), (hidden.shape[1],), weight, bias, EPSILON)

    def _dropped(self, values: torch.Tensor, *, drop: bool) -> torch.Tensor:
        return functional.dropout(values, DROPOUT) if drop and self.training else values


class _Batch:
    """Where the word pieces of a batch belong. row: the text of each; place: its position in the text."""

    def __init__(self, lengths: torch.Tensor) -> None:
        self._texts, self._longest = len(lengths), int(lengths.max())
        self.row = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
        self.place = torch.cat([torch.arange(int(length)) for length in lengths])
        absent = torch.arange(self._longest)[None, :] >= lengths[:, None]
        self.hidden_from = torch.zeros(absent.shape).masked_fill(absent, -1e4)[:, None, None, :]

    def spread(self, values: torch.Tensor, heads: int) -> torch.Tensor:
        """From one row a piece to texts × heads × places × width of a head."""
        padded = values.new_zeros(self._texts, self._longest, values.shape[1])
        padded = padded.index_put((self.row, self.place), values)
        return padded.view(self._texts, self._longest, heads, -1).transpose(1, 2)

    def gathered(self, values: torch.Tensor) -> torch.Tensor:
        """The way back."""
        joined = values.transpose(1, 2).reshape(self._texts, self._longest, -1)
        return joined[self.row, self.place]


def _is_trained(name: str) -> bool:
    parts = name.split(".")
    return parts[:2] == ["encoder", "layer"] and int(parts[2]) >= FROZEN


def _tensor(values: np.ndarray) -> torch.Tensor:
    flat = np.ascontiguousarray(values, np.float32)
    return torch.frombuffer(bytearray(flat.tobytes()), dtype=torch.float32).reshape(flat.shape).clone()
