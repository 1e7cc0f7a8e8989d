"""The encoder that tests use instead of a model."""

import subprocess
import sys

import numpy as np

from turnwise.ports.encoder import Encoder
from turnwise.testing.fake_encoder import BagOfWordsEncoder
from turnwise.testing.selector_suite import ODD_TEXTS


def test_texts_that_share_words_lie_close_together() -> None:
    encoder: Encoder = BagOfWordsEncoder()
    vectors = encoder.encode(["Track my order!", "my order, track", "open", "track my invoice now"])
    same, none, half = (float(row @ vectors[0]) for row in vectors[1:])
    assert same > 0.999
    assert 0.3 < half < 0.8
    assert abs(none) < 0.3


def test_any_text_has_a_vector_of_length_one() -> None:
    encoder = BagOfWordsEncoder()
    vectors = encoder.encode(ODD_TEXTS)
    assert vectors.shape == (len(ODD_TEXTS), encoder.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert encoder.encode([]).shape == (0, encoder.dimensions)


def test_another_process_gives_the_same_vectors() -> None:
    """E9"""
    program = (
        "from turnwise.testing.fake_encoder import BagOfWordsEncoder as E; print(E().encode(['Where is it?']).tobytes().hex())"
    )
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert bytes.fromhex(printed.strip()) == BagOfWordsEncoder().encode(["where is IT"]).tobytes()


def test_it_counts_what_it_was_asked() -> None:
    encoder = BagOfWordsEncoder(is_local=False)
    encoder.encode(["a", "b"])
    encoder.encode([])
    assert (encoder.calls, encoder.encoded, encoder.is_local) == (2, 2, False)
