"""An encoder that runs local files: the bundled model, or one written by `export`."""

import hashlib
import json
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.facts.errors import EncoderError
from turnwise.matching.encoder.wordpiece import WordPiece

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession

SHIPPED = Path(__file__).parent / "minilm"
SETTINGS_FILE, MODEL_FILE, VOCABULARY_FILE = "encoder.json", "encoder.onnx", "vocab.txt"
FORMAT = 1

# onnxruntime releases the GIL. More threads gain little and take cores from other work.
_THREADS = 4
_WORTH_THREADS = 32


class OnnxEncoder:
    """A local encoder. Safe to share between threads. A text's vector does not depend on the other texts of a call.

    A ten-word message takes about a millisecond on one core; larger calls use a few threads. The settings are read by the
    constructor, the model and vocabulary at the first `encode`. Texts are truncated to `max_tokens` tokens (128 for the bundled
    model).
    """

    is_local = True

    def __init__(self, directory: Path | str | None = None) -> None:
        """Reads the settings of an exported encoder.

        Args:
            directory: Folder written by `export`; None = the bundled encoder.

        Raises:
            EncoderError: The folder is not an exported encoder.
        """
        self._directory = SHIPPED if directory is None else Path(directory)
        settings = _settings(self._directory)
        try:
            self._dimensions, self._max_tokens = int(settings["dimensions"]), int(settings["max_tokens"])
            self._model_hash, self._vocabulary_hash = str(settings["model_sha256"]), str(settings["vocabulary_sha256"])
            self._tokenizer = {key: bool(value) for key, value in settings["tokenizer"].items()}
            self._fingerprint = _fingerprint(settings)
            named = ("en",) if directory is None else settings.get("languages")
            self.languages = None if named is None else frozenset(map(str, named))
            """The languages that the model knows; None when the folder names none."""
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problem = f"{self._directory / SETTINGS_FILE} lacks something: {error!r}."
            raise EncoderError(problem, fix="Export the model again.") from error
        self._lock = threading.Lock()
        self._loaded: tuple[WordPiece, InferenceSession] | None = None

    def __repr__(self) -> str:
        return f"OnnxEncoder({self._fingerprint})"

    @property
    def fingerprint(self) -> str:
        """Identifies the model's bytes, the vocabulary, the tokenizer's options and the onnxruntime release."""
        return self._fingerprint

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def encode(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Returns one row of length 1 for each text, in order.

        Raises:
            EncoderError: The model's files are damaged.
        """
        import numpy as np

        vectors = np.empty((len(texts), self._dimensions), np.float32)
        tokenizer, session = self._load()

        def fill(rows: range) -> None:
            for row in rows:
                numbers = np.array([tokenizer.numbers(texts[row], self._max_tokens)], np.int64)
                vectors[row] = session.run(None, {"numbers": numbers})[0][0]

        workers = min(_THREADS, os.cpu_count() or 1) if len(texts) >= _WORTH_THREADS else 1
        if workers == 1:
            fill(range(len(texts)))
        else:
            with ThreadPoolExecutor(workers, "turnwise-encoder") as pool:
                for done in [pool.submit(fill, range(first, len(texts), workers)) for first in range(workers)]:
                    done.result()
        return vectors

    def _load(self) -> "tuple[WordPiece, InferenceSession]":
        """Returns the tokenizer and the model's session, read at first use."""
        with self._lock:
            if self._loaded is None:
                vocabulary = self._read(VOCABULARY_FILE, self._vocabulary_hash).decode("utf-8")
                session = session_of(self._read(MODEL_FILE, self._model_hash), str(self._directory / MODEL_FILE))
                self._loaded = WordPiece(vocabulary, **self._tokenizer), session
            return self._loaded

    def _read(self, name: str, expected: str) -> bytes:
        """Returns a file's bytes. Raises EncoderError if it is missing or has another hash than the settings say."""
        path = self._directory / name
        try:
            content = path.read_bytes()
        except OSError as error:
            problem = f"{path} cannot be read: {error.strerror}."
            raise EncoderError(problem, fix="Install Turnwise again, or export the model again.") from error
        if hashlib.sha256(content).hexdigest() != expected:
            problem = f"{path} is not the file that {SETTINGS_FILE} describes."
            raise EncoderError(problem, fix="Install Turnwise again, or export the model again.")
        return content


def _settings(directory: Path) -> dict[str, Any]:
    """Returns the settings of an encoder's directory. Raises EncoderError."""
    path = directory / SETTINGS_FILE
    try:
        settings = json.loads(path.read_text("utf-8"))
    except OSError as error:
        problem = f"{path} cannot be read: {error.strerror}."
        fix = "Name a directory written by: python -m turnwise.matching.encoder.export"
        raise EncoderError(problem, fix=fix) from error
    except ValueError as error:
        raise EncoderError(f"{path} is not JSON: {error}.", fix="Export the model again.") from error
    if not isinstance(settings, dict) or settings.get("format") != FORMAT:
        raise EncoderError(f"{path} is not of format {FORMAT}.", fix="Export the model again with this Turnwise.")
    return settings


def _fingerprint(settings: dict[str, Any]) -> str:
    """Returns `NAME:DIGEST@RUNTIME`.

    onnxruntime releases round differently, so the release is included. Weights trained on the model's vectors tolerate such
    differences; their check compares only the part before the `@`.
    """
    decisive = {key: settings[key] for key in ("format", "max_tokens", "model_sha256", "tokenizer", "vocabulary_sha256")}
    digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
    return f"{settings['name']}:{digest[:16]}@{_runtime_version()}"


def _runtime_version() -> str:
    try:
        return version("onnxruntime")
    except PackageNotFoundError:  # another build, under another package name
        onnxruntime = _runtime()
        return f"{onnxruntime.__version__} {onnxruntime.get_device()}"


def _runtime() -> Any:
    """Imports onnxruntime, with telemetry disabled unless the environment enables it."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read once, when the library is imported
    import onnxruntime

    return onnxruntime


def session_of(model: bytes, name: str) -> "InferenceSession":
    """Loads the graph for single-threaded use. Raises EncoderError with `name` when it does not load."""
    onnxruntime = _runtime()
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    # The graph is already optimized; rewriting by another release could change the vectors.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_mem_pattern = False  # it would store a plan for every input length
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the library's errors share no class
        problem = f"{name} does not load: {type(error).__name__}: {error}."
        raise EncoderError(problem, fix="Export the model again.") from error
