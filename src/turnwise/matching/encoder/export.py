"""Converts a sentence-transformers model to an encoder directory, without its framework.

    python -m turnwise.matching.encoder.export SOURCE TARGET [--sha256 HASH] [--name NAME] [--languages CODES]

SOURCE is the model's directory, or a wheel that contains it. Requires the `export` extra. On one machine the same source
gives the same bytes.

All inputs of a layer share one quantization scale. In BERT, a few channels have values five to twenty times larger than the
others, which are then left with a few bits. Such a channel is divided and its row of weights multiplied, so the product is
unchanged (SmoothQuant, Xiao et al. 2023; here only for outliers, by powers of two).
"""

import argparse
import hashlib
import json
import random
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from turnwise.facts.errors import EncoderError, MissingExtra, TurnwiseError
from turnwise.matching.encoder import onnx_graph
from turnwise.matching.encoder.onnx_encoder import FORMAT, MODEL_FILE, SETTINGS_FILE, VOCABULARY_FILE, session_of
from turnwise.matching.encoder.onnx_graph import Shape
from turnwise.matching.encoder.wordpiece import WordPiece

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession

    from turnwise.matching.encoder.onnx_graph import Weights

_MAX_TOKENS = 128

_TEXTS, _MOST_WORDS = 200, 40
_USUAL = 99
"""Percentile of the channels' ranges; channels above it are scaled down to it."""

WEIGHTS_FILE = "model.safetensors"
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_FIX = "Turnwise exports BERT models of sentence-transformers with mean or CLS pooling."

Read = Callable[[str], bytes]


def export(
    model: Path,
    target: Path,
    *,
    sha256: str | None = None,
    name: str | None = None,
    languages: Sequence[str] = (),
    quantized: bool = True,
) -> str:
    """Writes the encoder's three files into `target`, creating the folder. Returns the sha256 of the ONNX file.

    Args:
        model: The model's directory, or a wheel that contains it.
        target: The folder to write.
        sha256: Required hash of the weights file; None = any.
        name: First part of the encoder's fingerprint; None = the name in the model's settings.
        languages: ISO 639-1 codes of the languages that the model knows; empty = not stated, so that it counts as knowing all.
        quantized: False keeps float32 weights, for comparison: four times the size and the time.

    Raises:
        EncoderError: The source is not a supported model.
        MissingExtra: The `export` extra is not installed.
    """
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise MissingExtra("Exporting an encoder", "export") from error
    found = load(model, max_tokens=_MAX_TOKENS, sha256=sha256)
    try:
        width = int(found.weights["embeddings.word_embeddings.weight"].shape[1])
        if width % found.shape.heads:  # some releases of onnxruntime run such a graph
            problem = f"The model cannot be run: its width of {width} is no multiple of its {found.shape.heads} heads."
            raise EncoderError(problem, fix="Check num_attention_heads in its config.json.")
        tokenizer = WordPiece(found.vocabulary, **found.tokenizer)
        content = onnx_graph.write(found.weights, found.shape, quantized=False)
        if quantized:
            uneven = divisors(content, found.vocabulary, tokenizer, found.shape.max_tokens)
            content = onnx_graph.write(found.weights, found.shape, divisors=uneven)
    except KeyError as error:
        raise EncoderError(f"The model lacks {error}.", fix="It is not a BERT model, or its files are incomplete.") from error
    settings = {
        "format": FORMAT,
        "name": name or found.name,
        "weights": "int8" if quantized else "float32",
        "dimensions": width,
        "max_tokens": found.shape.max_tokens,
        "pooling": found.shape.pooling,
        "tokenizer": found.tokenizer,
        "source_sha256": found.weights_sha256,
        "model_sha256": hashlib.sha256(content).hexdigest(),
        "vocabulary_sha256": hashlib.sha256(found.vocabulary.encode()).hexdigest(),
        **({"languages": sorted(languages)} if languages else {}),
    }
    target.mkdir(parents=True, exist_ok=True)
    (target / MODEL_FILE).write_bytes(content)
    (target / VOCABULARY_FILE).write_bytes(found.vocabulary.encode())
    (target / SETTINGS_FILE).write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
    return str(settings["model_sha256"])


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m turnwise.matching.encoder.export", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("source", type=Path, help="a sentence-transformers model's directory, or a wheel that holds it")
    parser.add_argument("target", type=Path, help="the directory to write")
    parser.add_argument("--sha256", help="what the weights' file must have")
    parser.add_argument("--name", help="what begins the fingerprint")
    parser.add_argument("--languages", default="", help="the languages that the model knows, as codes: en,de,fr")
    parser.add_argument("--float32", action="store_true", help="keep the weights as they are: large and slow, to compare")
    options = parser.parse_args(arguments)
    try:
        digest = export(
            options.source,
            options.target,
            sha256=options.sha256,
            name=options.name,
            languages=[code.strip() for code in options.languages.split(",") if code.strip()],
            quantized=not options.float32,
        )
    except TurnwiseError as error:
        print(f"error[{error.code}]: {error}", file=sys.stderr)
        return 1
    print(f"{options.target / MODEL_FILE} sha256 {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
