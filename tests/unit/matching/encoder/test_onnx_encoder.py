"""The encoder that is shipped: what it promises to whoever decides."""

import hashlib
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from turnwise.facts.errors import EncoderError
from turnwise.matching.encoder.onnx_encoder import SHIPPED, OnnxEncoder
from turnwise.ports.encoder import Encoder

TEXTS = [
    "where is my parcel",
    "when will the package arrive",
    "i want my money back",
    "",
    "   ",
    "Ünïcode, 你好 and 👍🏽!",
    "\ud800 \x00",
    "long text " * 500,
    *(f"number {number} of many texts" + " more" * (number % 7) for number in range(60)),
]


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    return OnnxEncoder()


def test_it_is_what_the_port_says(encoder: OnnxEncoder) -> None:
    port: Encoder = encoder
    assert (port.dimensions, port.is_local) == (384, True)
    rows = port.encode(TEXTS)
    assert rows.shape == (len(TEXTS), 384)
    assert rows.dtype == np.float32
    assert np.abs(np.linalg.norm(rows, axis=1) - 1).max() < 1e-5
    assert port.encode([]).shape == (0, 384)


def test_a_text_has_one_vector_whatever_is_beside_it(encoder: OnnxEncoder) -> None:
    """E9"""
    together = encoder.encode(TEXTS)
    assert np.array_equal(encoder.encode(TEXTS[::-1])[::-1], together)
    assert np.array_equal(np.concatenate([encoder.encode([text]) for text in TEXTS]), together)
    assert np.array_equal(OnnxEncoder().encode(TEXTS), together)


def test_texts_that_mean_the_same_lie_together(encoder: OnnxEncoder) -> None:
    parcel, package, money = encoder.encode(TEXTS[:3])
    assert parcel @ package > max(parcel @ money, package @ money) + 0.2


def test_threads_get_the_same_vectors() -> None:
    fresh = OnnxEncoder()
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda text: fresh.encode([text])[0], TEXTS * 3))
    assert np.array_equal(np.stack(rows), np.tile(fresh.encode(TEXTS), (3, 1)))


def test_another_process_gets_the_same_vectors_and_hears_nothing(encoder: OnnxEncoder) -> None:
    """E9"""
    program = (
        "import sys, hashlib\n"
        "from turnwise.matching.encoder.onnx_encoder import OnnxEncoder\n"
        "assert not {'numpy', 'onnxruntime'} & set(sys.modules)\n"
        "encoder = OnnxEncoder()\n"
        "print(encoder.fingerprint, hashlib.sha256(encoder.encode(['where is my parcel']).tobytes()).hexdigest())\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    digest = hashlib.sha256(encoder.encode(["where is my parcel"]).tobytes()).hexdigest()
    assert (ran.stdout, ran.stderr) == (f"{encoder.fingerprint} {digest}\n", "")


def test_the_files_are_those_that_are_described(encoder: OnnxEncoder) -> None:
    settings = json.loads((SHIPPED / "encoder.json").read_text("utf-8"))
    assert settings["source_sha256"] == "701885d2940d4e3f11c7444903d09c38697bafb1cd5de41a04e3909c9c3d8661"
    for name, key in (("encoder.onnx", "model_sha256"), ("vocab.txt", "vocabulary_sha256")):
        assert hashlib.sha256((SHIPPED / name).read_bytes()).hexdigest() == settings[key]
    assert encoder.fingerprint.startswith("turnwise/minilm-routing:")
    assert settings["source_sha256"] in (SHIPPED / "ATTRIBUTION.md").read_text("utf-8")
    assert "Apache License" in (SHIPPED / "LICENSE").read_text("utf-8")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "copy"))


@pytest.mark.parametrize("name", ["encoder.onnx", "vocab.txt"])
def test_a_damaged_or_missing_file_is_named(copy: Path, name: str) -> None:
    with (copy / name).open("r+b") as file:
        file.write(b"!!!!")
    with pytest.raises(EncoderError, match=r"not the file that encoder\.json describes"):
        OnnxEncoder(copy).encode(["a"])
    (copy / name).unlink()
    with pytest.raises(EncoderError, match="cannot be read"):
        OnnxEncoder(copy).encode(["a"])


def test_a_directory_of_another_kind_is_named(copy: Path, tmp_path: Path) -> None:
    settings = json.loads((copy / "encoder.json").read_text("utf-8"))
    for content, message in [
        ("{", "is not JSON"),
        ("[]", "is not of format 1"),
        (json.dumps(settings | {"format": 2}), "is not of format 1"),
        (json.dumps({"format": 1}), "lacks something"),
        (json.dumps(settings | {"tokenizer": 3}), "lacks something"),
    ]:
        (copy / "encoder.json").write_text(content, "utf-8")
        with pytest.raises(EncoderError, match=message):
            OnnxEncoder(copy)
    with pytest.raises(EncoderError, match="export"):
        OnnxEncoder(tmp_path / "nowhere")


def test_a_file_that_is_no_model_is_named(copy: Path) -> None:
    settings = json.loads((copy / "encoder.json").read_text("utf-8"))
    (copy / "encoder.onnx").write_bytes(b"no model")
    digest = hashlib.sha256(b"no model").hexdigest()
    (copy / "encoder.json").write_text(json.dumps(settings | {"model_sha256": digest}), "utf-8")
    with pytest.raises(EncoderError, match="does not load"):
        OnnxEncoder(copy).encode(["a"])


def test_the_fingerprint_changes_with_what_decides(copy: Path) -> None:
    settings = json.loads((copy / "encoder.json").read_text("utf-8"))
    prints = {OnnxEncoder(copy).fingerprint}
    for change in ({"max_tokens": 64}, {"model_sha256": "0"}, {"vocabulary_sha256": "0"}, {"tokenizer": {"lower": False}}):
        (copy / "encoder.json").write_text(json.dumps(settings | change), "utf-8")
        prints.add(OnnxEncoder(copy).fingerprint)
    assert len(prints) == 5
