"""What can be exported, and what is said of the rest."""

import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.facts.errors import EncoderError
from turnwise.matching.encoder.export import load

Make = Callable[..., Path]


def test_a_directory_is_read(make_model: Make) -> None:
    root = make_model()
    found = load(root, max_tokens=128)
    assert (found.name, found.shape.layers, found.shape.heads, found.shape.max_tokens) == ("small", 2, 4, 16)
    assert (found.shape.pooling, found.shape.activation, found.shape.epsilon) == ("mean", "gelu", 1e-12)
    assert found.tokenizer == {"lower": True, "strip_accents": True, "split_ideographs": True}
    assert found.weights_sha256 == hashlib.sha256((root / "model.safetensors").read_bytes()).hexdigest()
    assert found.vocabulary.startswith("[PAD]\n[UNK]\n")


def test_a_wheel_is_read_like_the_directory_in_it(make_model: Make, tmp_path: Path) -> None:
    root, wheel = make_model(), tmp_path / "model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted(root.rglob("*.*")):
            archive.write(path, Path("package/weights") / path.relative_to(root))
    one, other = load(root, max_tokens=8), load(wheel, max_tokens=8)
    assert one._replace(weights={}) == other._replace(weights={})
    assert one.shape.max_tokens == 8


def test_cls_pooling_and_a_cased_tokenizer(make_model: Make) -> None:
    root = make_model(
        pooling={"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True},
        tokenizer_config={"do_lower_case": False, "tokenize_chinese_chars": False},
        config={"hidden_act": "relu"},
    )
    found = load(root, max_tokens=128)
    assert (found.shape.pooling, found.shape.activation) == ("cls", "relu")
    assert found.tokenizer == {"lower": False, "strip_accents": False, "split_ideographs": False}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another model": ({"config": {"model_type": "mpnet"}}, "model_type 'mpnet', not 'bert'"),
    "other positions": ({"config": {"position_embedding_type": "relative_key"}}, "position_embedding_type"),
    "another activation": ({"config": {"hidden_act": "silu"}}, "hidden_act 'silu'"),
    "no heads": ({"config": {"num_attention_heads": None}}, "config.json lacks something"),
    "max pooling": ({"pooling": {"pooling_mode_max_tokens": True}}, "mean_tokens, max_tokens"),
    "no pooling": ({"pooling": {"pooling_mode_mean_tokens": False}}, "asks for nothing"),
    "a dense layer": ({"modules": [{"type": "models.Transformer"}, {"type": "models.Dense"}]}, "Transformer, Dense"),
    "another tokenizer": ({"tokenizer_config": {"tokenizer_class": "XLMRobertaTokenizer"}}, "XLMRobertaTokenizer"),
    "no settings": ({"config": None}, "no readable config.json"),
    "broken settings": ({"modules": "{"}, "modules.json is not JSON"),
}


@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=WRONG)
def test_what_is_no_such_model_is_named(make_model: Make, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EncoderError) as raised:
        load(make_model(**changes), max_tokens=128)
    assert message in str(raised.value)
    assert raised.value.code == "encoder"


def test_other_weights_than_expected_are_refused(make_model: Make) -> None:
    root = make_model()
    load(root, max_tokens=128, sha256=hashlib.sha256((root / "model.safetensors").read_bytes()).hexdigest().upper())
    with pytest.raises(EncoderError, match="genuine"):
        load(root, max_tokens=128, sha256="0" * 64)


def test_damaged_weights_and_other_files_are_refused(make_model: Make, tmp_path: Path) -> None:
    root = make_model()
    (root / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(EncoderError, match="cannot be read"):
        load(root, max_tokens=128)
    with pytest.raises(EncoderError, match="neither a directory nor a wheel"):
        load(root / "vocab.txt", max_tokens=128)
    empty = tmp_path / "empty.whl"
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("readme", "")
    with pytest.raises(EncoderError, match="holds 0 files"):
        load(empty, max_tokens=128)
