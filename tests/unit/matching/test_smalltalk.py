"""Small talk is judged on the whole message by a trained model (C8)."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from turnwise.matching.encoder.onnx_encoder import OnnxEncoder
from turnwise.matching.smalltalk import LISTS_FILE, MODEL_FILE, SmallTalk, features, fit, wording
from turnwise.testing.fake_encoder import BagOfWordsEncoder
from turnwise.testing.selector_suite import ODD_TEXTS

TALK = (
    "Hiya", "good evening to you", "how's life treating you?", "thx a million!!", "cheers, that is everything", "ok cool, cya",
    "what are you made of?", "u r a genius", "you are really dumb", "got any good jokes?", "are there feelings inside of you",
    "Do you have a crush on somebody?", "I feel great today", "Nice chatting with you", "no that's all, thank you so much",
    "Who is your daddy", "you bore me", "who taught you to speak", "I adore you", "that is so funny",
)  # fmt: skip
REQUESTS = (
    "when does my shipment arrive", "hi, could you check on my shipment?", "Hello there! I need a copy of my contract",
    "thanks, and please also move my appointment to Monday", "good morning, the elevator is stuck", "close ticket 4711",
    "this chip reader is broken", "I'd like a quote for roof repairs", "what is the dosage for amoxicillin",
    "ok great, now show me flights to Rome", "history of my payments", "you sent me the wrong shoes", "book a tennis court",
    "who do I contact about parking permits?", "Can I bring my dog on the train?", "my tooth hurts",
    "what does clause 7 of the lease mean", "rename this variable in all files", "find vegan restaurants nearby",
    "How do I dispute a charge?", "start the washing machine at six", "is the museum open today", "add oat milk to the list",
    "are you able to ship to Canada",
)  # fmt: skip


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    return OnnxEncoder()


def judged(encoder: OnnxEncoder, texts: Sequence[str]) -> NDArray[np.float64]:
    return SmallTalk.for_encoder(encoder).probabilities(encoder.encode(texts), texts)


def test_small_talk_is_found_and_requests_are_left_alone(encoder: OnnxEncoder) -> None:
    """C8: messages it was not trained on."""
    lists = json.loads(LISTS_FILE.read_text(encoding="utf-8"))
    assert not {*TALK, *REQUESTS} & {*lists["smalltalk"], *lists["requests"]}
    talk, requests = judged(encoder, TALK) > 0.5, judged(encoder, REQUESTS) > 0.5
    assert talk.sum() >= 18, [text for text, found in zip(TALK, talk, strict=True) if not found]
    assert requests.sum() == 0, [text for text, taken in zip(REQUESTS, requests, strict=True) if taken]


@pytest.mark.parametrize(
    ("talk", "request_"),
    [("hi", "shipment"), ("Hi there!", "Hi there! Where is my order?"), ("thank you", "thank you, and what about the refund")],
)
def test_the_whole_message_counts(encoder: OnnxEncoder, talk: str, request_: str) -> None:
    """C8: never a substring."""
    one, other = judged(encoder, [talk, request_])
    assert one > 0.5 > other


def test_the_shipped_model_fits_the_shipped_encoder(encoder: OnnxEncoder) -> None:
    """C8: `training/smalltalk.py` has to be run again when the encoder or the clues change."""
    shipped = json.loads(MODEL_FILE.read_text(encoding="utf-8"))
    assert shipped["encoder"] == encoder.fingerprint.partition("@")[0]
    assert len(shipped["weights"]) == features(encoder.encode(["hi"]), ["hi"]).shape[1]
    assert shipped["attribution"]
    assert MODEL_FILE.stat().st_size < 64 * 1024


def test_the_shipped_model_goes_with_any_release_of_the_runtime() -> None:
    """C8: only the encoder's model counts; nothing is encoded to fit another one."""
    other = BagOfWordsEncoder()
    other.fingerprint = f"{json.loads(MODEL_FILE.read_text(encoding='utf-8'))['encoder']}@0.0.0"
    SmallTalk.for_encoder(other)
    assert other.calls == 0


def test_other_scripts_are_no_small_talk_to_an_encoder_that_cannot_read_them(encoder: OnnxEncoder) -> None:
    """C8"""
    assert (judged(encoder, ["你好，你怎么样", "привет, как дела?", "مرحبا"]) == 0.0).all()


def test_another_encoder_gets_a_model_of_its_own() -> None:
    """C8: fitted on the texts that are shipped, once for an encoder object."""
    encoder = BagOfWordsEncoder()
    model = SmallTalk.for_encoder(encoder)
    asked = encoder.calls
    assert SmallTalk.for_encoder(encoder) is model
    assert encoder.calls == asked
    texts = ["hello, how are you", "thank you very much", "cancel my booking for tomorrow", "hi, where is my order"]
    found = model.probabilities(encoder.encode(texts), texts)
    assert (found > 0.5).tolist() == [True, True, False, False]


class Unhashable(BagOfWordsEncoder):
    __hash__ = None  # type: ignore[assignment]


def test_an_encoder_without_a_hash_will_do() -> None:
    texts = ["hello"]
    encoder = Unhashable()
    assert SmallTalk.for_encoder(encoder).probabilities(encoder.encode(texts), texts)[0] > 0.5


@pytest.mark.parametrize("make", [OnnxEncoder, BagOfWordsEncoder])
def test_any_text_is_judged(make: type[OnnxEncoder] | type[BagOfWordsEncoder]) -> None:
    """C8: between 0 and 1, and 0 for what has neither a word nor a picture."""
    encoder = make()
    model = SmallTalk.for_encoder(encoder)
    found = model.probabilities(encoder.encode(ODD_TEXTS), ODD_TEXTS)
    assert found.shape == (len(ODD_TEXTS),)
    assert ((found >= 0.0) & (found <= 1.0)).all()
    assert found[ODD_TEXTS.index("")] == 0.0
    assert model.probabilities(encoder.encode([]), []).shape == (0,)


def test_wording() -> None:
    """Words and neighbours, each once, with the ends."""
    assert wording("Hi, HI you’re") == ["hi", "you're", "^ hi", "hi hi", "hi you're", "you're $"]
    assert wording("?!") == ["^ $"]
    assert len(wording("word " * 10_000)) == 4


def test_the_fit_tells_two_kinds_apart_and_weighs_both_alike() -> None:
    """C8: one of many is not outvoted."""
    rows = np.array([[1.0, 0.1 * n] for n in range(3)] + [[-1.0, 0.1 * n] for n in range(30)], np.float32)
    labels = np.array([1.0] * 3 + [0.0] * 30, np.float32)
    weights, bias = fit(rows, labels)
    assert ((rows @ weights + bias > 0.0) == (labels > 0.0)).all()
    assert abs(bias) < weights[0]
    counted, _ = fit(rows, labels, np.full(33, 100.0, np.float32))
    assert counted[0] > weights[0]
