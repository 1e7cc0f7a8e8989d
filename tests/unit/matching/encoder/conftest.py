"""A BERT of our own, small enough to be computed by hand: what `export` is tested with."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save
from scipy.special import erf

LAYERS, HEADS, WIDTH, WIDE = 2, 4, 32, 64
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh", *(f"##{letter}" for letter in "abcdefgh")]

Weights = dict[str, NDArray[np.float32]]
Make = Callable[..., Path]


@pytest.fixture(scope="session")
def weights() -> Weights:
    random = np.random.default_rng(0)

    def drawn(*shape: int) -> NDArray[np.float32]:
        return (random.standard_normal(shape) * 0.3).astype(np.float32)

    found = {f"embeddings.{kind}_embeddings.weight": drawn(rows, WIDTH) for kind, rows in _TABLES.items()}
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        sizes = {f"attention.self.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")}
        sizes |= {"attention.output.dense": (WIDTH, WIDTH), "intermediate.dense": (WIDE, WIDTH), "output.dense": (WIDTH, WIDE)}
        for part, shape in sizes.items():
            found |= {f"{at}.{part}.weight": drawn(*shape), f"{at}.{part}.bias": drawn(shape[0])}
        norms += [f"{at}.attention.output.LayerNorm", f"{at}.output.LayerNorm"]
    for norm in norms:
        found |= {f"{norm}.weight": 1 + drawn(WIDTH), f"{norm}.bias": drawn(WIDTH)}
    return found


_TABLES = {"word": len(PIECES), "position": 40, "token_type": 2}


@pytest.fixture
def make_model(tmp_path: Path, weights: Weights) -> Make:
    """Writes a model's directory; keyword arguments change its files: `config={"model_type": "gpt"}`, None leaves one out."""

    def make(folder: str = "model", *, tensors: Weights | None = None, **changes: Any) -> Path:
        root = tmp_path / folder
        (root / "1_Pooling").mkdir(parents=True)
        files: dict[str, Any] = {
            "config": {
                "_name_or_path": "small",
                "model_type": "bert",
                "hidden_act": "gelu",
                "num_hidden_layers": LAYERS,
                "num_attention_heads": HEADS,
                "layer_norm_eps": 1e-12,
                "max_position_embeddings": 40,
            },
            "modules": [{"type": f"sentence_transformers.models.{kind}"} for kind in ("Transformer", "Pooling", "Normalize")],
            "1_Pooling/config": {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False},
            "sentence_bert_config": {"max_seq_length": 16},
            "tokenizer_config": {"tokenizer_class": "BertTokenizer", "do_lower_case": True},
        }
        for key, change in changes.items():
            name = {"pooling": "1_Pooling/config"}.get(key, key)
            files[name] = files[name] | change if isinstance(change, dict) else change
        for name, content in files.items():
            if content is not None:
                (root / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        (root / "vocab.txt").write_text("\n".join(PIECES) + "\n", "utf-8")
        (root / "model.safetensors").write_bytes(save(weights if tensors is None else tensors))
        return root

    return make


@pytest.fixture(scope="session")
def by_hand(weights: Weights) -> Callable[..., NDArray[np.float64]]:
    """A text's vector from the numbers of its pieces, written from the definition of BERT, in double precision."""

    def norm(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        centred = values - values.mean(-1, keepdims=True)
        scaled: NDArray[np.float64] = (
            centred / np.sqrt(values.var(-1, keepdims=True) + 1e-12) * weights[f"{name}.weight"] + weights[f"{name}.bias"]
        )
        return scaled

    def linear(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        return values @ weights[f"{name}.weight"].T.astype(np.float64) + weights[f"{name}.bias"]

    def attention(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        query, key, value = (
            linear(values, f"{name}.{part}").reshape(len(values), HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = np.exp(query @ key.transpose(0, 2, 1) / np.sqrt(WIDTH // HEADS))
        mixed: NDArray[np.float64] = (
            (scores / scores.sum(-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(len(values), -1)
        )
        return mixed

    def compute(numbers: list[int], *, pooling: str = "mean", activation: str = "gelu") -> NDArray[np.float64]:
        tables = [
            weights[f"embeddings.{kind}_embeddings.weight"].astype(np.float64) for kind in ("word", "position", "token_type")
        ]
        hidden = norm(tables[0][numbers] + tables[1][: len(numbers)] + tables[2][0], "embeddings.LayerNorm")
        for layer in range(LAYERS):
            at = f"encoder.layer.{layer}"
            seen = linear(attention(hidden, f"{at}.attention.self"), f"{at}.attention.output.dense")
            hidden = norm(seen + hidden, f"{at}.attention.output.LayerNorm")
            wide = linear(hidden, f"{at}.intermediate.dense")
            wide = wide * (1 + erf(wide / np.sqrt(2))) / 2 if activation == "gelu" else np.maximum(wide, 0)
            hidden = norm(linear(wide, f"{at}.output.dense") + hidden, f"{at}.output.LayerNorm")
        pooled = hidden.mean(0) if pooling == "mean" else hidden[0]
        unit: NDArray[np.float64] = pooled / np.linalg.norm(pooled)
        return unit

    return compute
