"""Reads a sentence-transformers model from a directory or a wheel, and checks that `graph` supports it."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from turnwise.facts.errors import EncoderError, MissingExtra
from turnwise.matching.encoder.onnx_graph import Shape

if TYPE_CHECKING:
    from turnwise.matching.encoder.onnx_graph import Weights

WEIGHTS_FILE = "model.safetensors"
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_FIX = "Turnwise exports BERT models of sentence-transformers with mean or CLS pooling."

Read = Callable[[str], bytes]


class SourceModel(NamedTuple):
    """A published model. `tokenizer` holds the options of `WordPiece`."""

    name: str
    weights: "Weights"
    weights_sha256: str
    vocabulary: str
    tokenizer: dict[str, bool]
    shape: Shape


def load(path: Path, *, max_tokens: int, sha256: str | None = None) -> SourceModel:
    """Reads a model's directory, or a wheel or zip that contains exactly one.

    Args:
        path: The directory or archive.
        max_tokens: Upper limit for the model's maximum number of tokens.
        sha256: Required hash of the weights file; None = any.

    Raises:
        EncoderError: A file is missing or the model is not supported.
        MissingExtra: The `export` extra is not installed.
    """
    read = _reader(path)
    settings = _json(read, "config.json")
    raw = _read(read, WEIGHTS_FILE)
    digest = hashlib.sha256(raw).hexdigest()
    if sha256 is not None and digest != sha256.lower():
        raise EncoderError(f"{WEIGHTS_FILE} of {path} has the sha256 {digest}, not {sha256}.", fix="Use the genuine file.")
    tokens = min(max_tokens, int(_json(read, "sentence_bert_config.json").get("max_seq_length") or max_tokens))
    return SourceModel(
        name=str(settings.get("_name_or_path") or path.stem),
        weights=_weights(raw),
        weights_sha256=digest,
        vocabulary=_read(read, "vocab.txt").decode("utf-8").replace("\r\n", "\n"),
        tokenizer=_tokenizer(_json(read, "tokenizer_config.json")),
        shape=_shape(settings, pooling=_pooling(read), max_tokens=tokens),
    )


def _reader(path: Path) -> Read:
    """Returns a function that reads files of the model, from a directory or a wheel. Raises EncoderError."""
    if path.is_dir():
        return lambda name: (path / name).read_bytes()
    if not zipfile.is_zipfile(path):
        raise EncoderError(f"{path} is neither a directory nor a wheel.", fix="Name a sentence-transformers model's directory.")
    with zipfile.ZipFile(path) as archive:
        roots = [PurePosixPath(name).parent for name in archive.namelist() if PurePosixPath(name).name == WEIGHTS_FILE]
    if len(roots) != 1:
        raise EncoderError(f"{path} holds {len(roots)} files {WEIGHTS_FILE}, not one.", fix="Unpack it and name the directory.")

    def read(name: str) -> bytes:
        with zipfile.ZipFile(path) as archive:
            return archive.read(str(roots[0] / name))

    return read


def _read(read: Read, name: str) -> bytes:
    try:
        return read(name)
    except (OSError, KeyError) as error:
        raise EncoderError(f"The model has no readable {name}.", fix=_FIX) from error


def _json(read: Read, name: str) -> Any:
    try:
        return json.loads(_read(read, name))
    except ValueError as error:
        raise EncoderError(f"{name} is not JSON: {error}.", fix=_FIX) from error


def _weights(raw: bytes) -> "Weights":
    """Returns the weights by name. Raises MissingExtra, EncoderError."""
    try:
        from safetensors.numpy import load as load_tensors
    except ImportError as error:
        raise MissingExtra("Exporting an encoder", "export") from error
    import numpy as np

    try:
        tensors = load_tensors(raw)
    except Exception as error:  # the library's errors share no class
        raise EncoderError(f"{WEIGHTS_FILE} cannot be read: {error}.", fix="Get the file again.") from error
    floats = {name: tensor.astype(np.float32) for name, tensor in tensors.items() if tensor.dtype.kind not in "iub"}
    return {name.removeprefix("bert."): tensor for name, tensor in floats.items()}


def _shape(settings: dict[str, Any], *, pooling: str, max_tokens: int) -> Shape:
    """Returns the graph's parameters. Raises EncoderError when the graph does not support the model."""
    expected = {"model_type": ("bert",), "position_embedding_type": ("absolute", None), "hidden_act": ("gelu", "relu")}
    for key, allowed in expected.items():
        if settings.get(key) not in allowed:
            raise EncoderError(f"config.json says {key} {settings.get(key)!r}, not {allowed[0]!r}.", fix=_FIX)
    try:
        return Shape(
            layers=int(settings["num_hidden_layers"]),
            heads=int(settings["num_attention_heads"]),
            epsilon=float(settings["layer_norm_eps"]),
            max_tokens=min(max_tokens, int(settings["max_position_embeddings"])),
            pooling=pooling,
            activation=str(settings["hidden_act"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise EncoderError(f"config.json lacks something: {error!r}.", fix=_FIX) from error


def _pooling(read: Read) -> str:
    """Returns how the model pools tokens: `mean` or `cls`. Raises EncoderError for others."""
    modules = [str(module.get("type", "")).rpartition(".")[2] for module in _json(read, "modules.json")]
    if modules not in [list(_KNOWN_MODULES), list(_KNOWN_MODULES[:2])]:
        raise EncoderError(f"modules.json lists {', '.join(modules)}, not {', '.join(_KNOWN_MODULES)}.", fix=_FIX)
    settings = _json(read, "1_Pooling/config.json")
    chosen = [key.removeprefix("pooling_mode_") for key, value in settings.items() if key.startswith("pooling_mode_") and value]
    names = {("mean_tokens",): "mean", ("cls_token",): "cls"}
    if tuple(chosen) not in names:
        raise EncoderError(f"1_Pooling/config.json asks for {', '.join(chosen) or 'nothing'}.", fix=_FIX)
    return names[tuple(chosen)]


def _tokenizer(settings: dict[str, Any]) -> dict[str, bool]:
    """Returns the tokenizer's options. Raises EncoderError for another tokenizer than BERT's."""
    kind = settings.get("tokenizer_class", "BertTokenizer")
    if kind not in ("BertTokenizer", "BertTokenizerFast"):
        raise EncoderError(f"tokenizer_config.json says {kind}, not BertTokenizer.", fix=_FIX)
    lower = bool(settings.get("do_lower_case", True))
    strip = settings.get("strip_accents")
    return {
        "lower": lower,
        "strip_accents": lower if strip is None else bool(strip),
        "split_ideographs": bool(settings.get("tokenize_chinese_chars", True)),
    }
