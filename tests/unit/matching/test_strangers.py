"""How near strangers come to a small app: by its own phrases, and by a sample of requests that are nobody's."""

import numpy as np

from turnwise.matching.encoder.onnx_encoder import OnnxEncoder
from turnwise.matching.match import Phrase
from turnwise.matching.matcher import fit
from turnwise.matching.novelty import Strangers, shipped_strangers

AGENTS = {
    "parcels": [
        "where is my parcel",
        "my package is late",
        "track my shipment",
        "when does it arrive",
        "nothing was delivered",
    ],
    "invoices": [
        "send me the invoice",
        "my bill is wrong",
        "you charged me twice",
        "how do I pay by card",
        "I want my money back",
    ],
    "shops": [
        "when do you open",
        "where is the nearest shop",
        "is there parking",
        "are you open on sunday",
        "your address please",
    ],
    "returns": ["send it back", "the wrong size came", "exchange the shoes", "it arrived broken", "print a return label"],
    "vouchers": [
        "my voucher does not work",
        "redeem a gift card",
        "buy a voucher",
        "discount for students",
        "the code expired",
    ],
    "accounts": ["I forgot my password", "change my e-mail address", "delete my account", "I cannot log in", "block my user"],
}
STRANGE = [
    "why is the sea salty",
    "who was the first pope",
    "teach me how to juggle",
    "is my cat jealous",
    "how do volcanoes erupt",
]
OWN = ["my parcel has not come", "the invoice has a mistake", "what are your opening hours", "the login does not work"]


def test_the_vectors_are_those_of_the_shipped_encoder() -> None:
    encoder = OnnxEncoder()
    sample = shipped_strangers(encoder.fingerprint)
    assert sample is not None
    assert 150 <= len(sample.texts) == len(set(sample.texts)) == len(sample.vectors)
    vectors = encoder.encode(sample.texts[:8])
    assert np.abs((vectors * sample.vectors[:8]).sum(axis=1) - 1.0).max() < 2e-3
    assert shipped_strangers("another-encoder@1") is None


def test_a_stranger_that_is_like_the_app_does_not_count() -> None:
    sample = Strangers(("one", "two"), np.eye(2, dtype=np.float32))
    assert sample.unlike(np.array([[1.0, 0.0]], np.float32), 0.5).texts == ("two",)
    assert sample.unlike(np.empty((0, 2), np.float32), 0.5).texts == ("one", "two")


def test_a_small_app_tells_strangers_from_its_own_requests() -> None:
    encoder = OnnxEncoder()
    phrases = [Phrase(name, text) for name, texts in AGENTS.items() for text in texts]
    vectors = encoder.encode([phrase.text for phrase in phrases])
    matcher = fit(phrases, vectors, strangers=shipped_strangers(encoder.fingerprint))
    strange = [each.novelty for each in matcher.match_many(STRANGE, encoder.encode(STRANGE))]
    own = [each.novelty for each in matcher.match_many(OWN, encoder.encode(OWN))]
    assert min(strange) > 0.5 > max(own)
    alone = fit(phrases, vectors, strangers=Strangers((), np.empty((0, 384), np.float32)))
    without = fit(phrases, vectors)
    assert (
        alone.match(STRANGE[0], encoder.encode(STRANGE)[0]).novelty
        == without.match(STRANGE[0], encoder.encode(STRANGE)[0]).novelty
    )
