"""A matcher in use."""

import threading

import numpy as np
from words import Words

from turnwise.matching.match import Phrase
from turnwise.matching.matcher import nearest
from turnwise.matching.smalltalk import SmallTalk
from turnwise.matching.spelling import SpellingCorrector
from turnwise.selection.reader import CACHED_READINGS, TextReader, with_parts

PHRASES = (Phrase("billing", "where is my invoice"), Phrase("travel", "book a flight to rome"))


def served_of(encoder: Words, phrases: tuple[Phrase, ...] = PHRASES) -> TextReader:
    matcher = nearest(phrases, encoder.encode([phrase.text for phrase in phrases])) if phrases else None
    return TextReader(
        encoder, matcher, SmallTalk.for_encoder(encoder), SpellingCorrector(phrase.text for phrase in phrases), "f"
    )


def test_readings_have_the_order_of_their_texts() -> None:
    served = served_of(Words())
    texts = ["a flight please", "my invoice", "a flight please"]
    readings = served.read(texts)
    assert [reading.text for reading in readings] == texts
    assert [reading.match.ranked(1)[0][0] for reading in readings] == ["travel", "billing", "travel"]
    assert all(0.0 <= reading.smalltalk <= 1.0 for reading in readings)
    alone = served.read(["my invoice"])[0]
    assert np.allclose(alone.match.probabilities, readings[1].match.probabilities, atol=1e-6)


def test_texts_are_read_in_their_normal_form_and_kept_as_they_were() -> None:
    """C2"""
    served = served_of(Words())
    plain, odd = served.read(["my invoice", "  my\n\u200binvoice "])
    assert odd.text == "  my\n\u200binvoice "
    assert np.array_equal(plain.vector, odd.vector)


def test_what_was_read_is_remembered_and_long_texts_are_not() -> None:
    served = served_of(Words())
    assert served.cached(["my invoice"]) == {}
    (reading,) = served.read(["my invoice"])
    assert served.cached(["my invoice", "other"]) == {"my invoice": reading}
    served.read(["long " * 1_000])
    assert served.cached(["long " * 1_000]) == {}


def test_the_memory_is_bounded_and_what_is_used_stays() -> None:
    served = served_of(Words(), ())
    served.read(["first"])
    for start in range(0, CACHED_READINGS, 1_000):
        served.read([str(number) for number in range(start, start + 999)])
        served.cached(["first"])
    served.read([f"more {number}" for number in range(100)])
    assert list(served.cached(["first", "0", "more 99"])) == ["first", "more 99"]


def test_with_thousands_of_agents_fewer_readings_are_remembered() -> None:
    """Each holds numbers for every agent."""
    served = served_of(Words(), tuple(Phrase(f"agent {number}", f"word{number % 50}") for number in range(5_000)))
    served.read([str(number) for number in range(400)])
    assert len(served.cached([str(number) for number in range(400)])) == 300


def test_without_phrases_nobody_fits() -> None:
    match = served_of(Words(), ()).read(["hello"])[0].match
    assert (match.labels, match.novelty, match.nearest, match.ranked(3)) == ((), 1.0, (), [])
    assert match.among(["billing"]).labels == ()


def test_any_text_can_be_read() -> None:
    served = served_of(Words())
    odd = ["", " ", "\ud800", "a" * 100_000, "\u202e<next>@Admin</next>", "🙂" * 50, "\x00"]
    for reading in served.read(odd):
        assert np.isfinite(reading.vector).all()
        assert abs(reading.match.probabilities.sum() - 1.0) < 1e-6


def test_threads_read_the_same() -> None:
    """E9"""
    served = served_of(Words())
    texts = [f"invoice {number} to rome" for number in range(50)]
    found: list[list[float]] = []

    def read() -> None:
        found.append([served.read([text])[0].match.novelty for text in texts])

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [found[0]] * 4


def test_a_greeting_in_a_long_message_does_not_count() -> None:
    """C8: also where an agent's examples greet; what an agent is for is no greeting, small talk or not."""
    greeting, request = "good morning to you", "book a flight to rome"
    served = served_of(Words(), (Phrase("desk", greeting), *PHRASES))
    whole, hello, asks = served.read([f"{greeting}. {request}", greeting, request])
    heard = with_parts(whole, [hello, asks, asks])
    assert heard.match.ranked(1)[0][0] == "travel"
    assert np.array_equal(heard.match.probabilities, whole.match.with_parts([asks.match, asks.match]).probabilities)
    only = with_parts(whole, [hello, hello])
    assert np.array_equal(only.match.probabilities, whole.match.with_parts([hello.match, hello.match]).probabilities)
    joke = asks._replace(smalltalk=0.99)
    told = with_parts(whole, [hello, joke])
    assert np.array_equal(told.match.probabilities, whole.match.with_parts([joke.match]).probabilities)
