"""A model of one's own becomes an encoder's directory."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from turnwise.facts.errors import EncoderError
from turnwise.matching.encoder.export import export, main
from turnwise.matching.encoder.onnx_encoder import OnnxEncoder
from turnwise.matching.encoder.wordpiece import WordPiece

Make = Callable[..., Path]
Weights = dict[str, NDArray[np.float32]]
TEXTS = ["", "abc def", "Hab! ÄBC", "cab " * 50]


def test_what_is_exported_encodes(make_model: Make, tmp_path: Path, by_hand: Callable[..., NDArray[np.float64]]) -> None:
    root = make_model()
    export(root, tmp_path / "exact", quantized=False)
    export(root, tmp_path / "small", name="mine")
    tokenizer = WordPiece((root / "vocab.txt").read_text("utf-8"))
    expected = np.stack([by_hand(tokenizer.numbers(text, 16)) for text in TEXTS])
    assert np.abs(OnnxEncoder(tmp_path / "exact").encode(TEXTS) - expected).max() < 1e-5
    small = OnnxEncoder(str(tmp_path / "small"))
    assert (small.encode(TEXTS) * expected).sum(axis=1).min() > 0.98
    assert small.dimensions == 32
    assert small.fingerprint.startswith("mine:")
    assert small.fingerprint != OnnxEncoder(tmp_path / "exact").fingerprint


def test_the_same_source_gives_the_same_bytes(make_model: Make, tmp_path: Path) -> None:
    """E9"""
    root = make_model()
    digests = {export(root, tmp_path / name) for name in ("one", "other")}
    assert digests == {hashlib.sha256((tmp_path / "one" / "encoder.onnx").read_bytes()).hexdigest()}
    for name in ("encoder.json", "vocab.txt", "encoder.onnx"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    assert json.loads((tmp_path / "one" / "encoder.json").read_text("utf-8"))["max_tokens"] == 16


def test_a_model_that_lacks_weights_or_tokens_is_named(make_model: Make, tmp_path: Path, weights: Weights) -> None:
    fewer = {name: tensor for name, tensor in weights.items() if "layer.1.output" not in name}
    with pytest.raises(EncoderError, match=r"lacks .*layer\.1\.output"):
        export(make_model(tensors=fewer), tmp_path / "target")
    root = make_model("other")
    (root / "vocab.txt").write_text("a\nb\n", "utf-8")
    with pytest.raises(EncoderError, match=r"lacks .*UNK"):
        export(root, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_model_whose_settings_do_not_fit_its_weights_is_refused(make_model: Make, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="cannot be run"):
        export(make_model(config={"num_attention_heads": 5}), tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_vocabulary_without_words_will_do(make_model: Make, tmp_path: Path) -> None:
    root = make_model()
    (root / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"0123456789"]) + "\n", "utf-8")
    export(root, tmp_path / "target")
    assert OnnxEncoder(tmp_path / "target").encode(["1 2"]).shape == (1, 32)


def test_weights_of_a_checkpoint_with_a_prefix(make_model: Make, tmp_path: Path, weights: Weights) -> None:
    prefixed = make_model("prefixed", tensors={f"bert.{name}": tensor for name, tensor in weights.items()})
    assert export(prefixed, tmp_path / "one") == export(make_model(), tmp_path / "other")


def test_the_command(make_model: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_model()
    assert main([str(root), str(tmp_path / "target"), "--name", "mine"]) == 0
    assert "encoder.onnx sha256 " in capsys.readouterr().out
    assert OnnxEncoder(tmp_path / "target").encode(["a"]).shape == (1, 32)
    assert main([str(root), str(tmp_path / "target"), "--sha256", "0" * 64]) == 1
    assert capsys.readouterr().err.startswith("error[encoder]: ")
