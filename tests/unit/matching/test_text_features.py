"""What a message shows of itself (C2)."""

import pytest

from turnwise.matching.text_features import READ_CHARACTERS, TextFeatures, text_features
from turnwise.testing.selector_suite import ODD_TEXTS


def shown(text: str) -> set[str]:
    """The names of the clues that are simply there or not, where they are."""
    return {name for name, value in text_features(text)._asdict().items() if value is True}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("write to ann.b+c@example.com", {"email", "imperative"}),
        ("+49 170 1234567", {"phone"}),
        ("call (415) 555-1234", {"phone", "imperative"}),
        ("see www.example.org", {"url"}),
        ("March 3rd", {"date"}),
        ("2026-03-05", {"date"}),
        ("tomorrow at 3pm", {"date", "time"}),
        ("around 10:30", {"time"}),
        ("$30 at most", {"money"}),
        ("AB-12345", {"order_code"}),
        ("#4711", {"order_code"}),
        ("12 Long Hill Road", {"address"}),
        ("Hauptstraße 12", {"address"}),
    ],
)
def test_values(text: str, expected: set[str]) -> None:
    """C2"""
    assert shown(text) == expected


@pytest.mark.parametrize("text", ["the 14th", "3pm", "2 people", "a@b", "1/2", "route 66", "v2", "state-of-the-art.", "may i"])
def test_what_is_no_value(text: str) -> None:
    """C2: an ordinal or a time is no order number, a hyphen no telephone."""
    found = shown(text)
    assert not found & {"email", "phone", "url", "order_code", "money", "address"}, found


@pytest.mark.parametrize(
    ("text", "kinds", "rest"),
    [
        ("Hi there!", {"greeting"}, 0),
        ("good morning", {"greeting"}, 0),
        ("Hi, where is my order?", {"greeting"}, 4),
        ("yes please", {"yes"}, 0),
        ("No, thanks", {"no", "thanks"}, 0),
        ("ok great, thank you so much", {"ok", "thanks"}, 0),
        ("Sounds good. Book it", {"yes"}, 2),
        ("shipment of hi-fi", set(), 4),
        ("the yes button", set(), 3),
        ("", set(), 0),
    ],
)
def test_openings(text: str, kinds: set[str], rest: int) -> None:
    """C2; C8: whole words, at the beginning."""
    found = text_features(text)
    assert {kind for kind in ("greeting", "yes", "no", "ok", "thanks") if getattr(found, f"opens_{kind}")} == kinds
    assert found.rest == rest


@pytest.mark.parametrize(
    ("text", "clue"),
    [
        ("I'd like a table", "asks"),
        ("ok, find me a flight", "imperative"),
        ("please book it", "imperative"),
        ("Where is it", "question_word"),
        ("it came when?", "question_mark"),
        ("and a taxi also", "also"),
        ("Rome instead", "instead"),
        ("what about billing", "what_about"),
        ("now back to my hotel", "back_to"),
        ("Actually, Tuesday", "actually"),
        ("oh never mind", "never_mind"),
        ("let me talk to billing", "somebody"),
        ("is it open", "refers_back"),
        ("my card", "own"),
        ("how are you", "you"),
        ("I don’t want that", "negates"),
        ("thanks, that's all", "closing"),
        ("ok bye", "closing"),
        ("I said thanks", "thanks"),
        ("STOP DOING THIS", "shouting"),
        ("for (i=0; i<3; i++) { x(); }", "code_like"),
        ("super 🙂", "emoji"),
    ],
)
def test_words(text: str, clue: str) -> None:
    """C2"""
    assert clue in shown(text)


def test_talking_to_you_later_asks_for_nobody() -> None:
    assert "somebody" not in shown("I'll talk to you later")


def test_counts() -> None:
    """C2: words behind the opening, and those that name something."""
    found = text_features("Hi, where is my order #4711, and my refund?")
    assert (found.words, found.rest, found.content, found.numbers) == (9, 8, 3, 1)


def test_scripts() -> None:
    """C2: shares of the letters; neutral without any."""
    assert (text_features("Straße über").latin, text_features("Straße über").other_script) == (1.0, 0.0)
    russian = text_features("где мой заказ?")
    assert (russian.other_script, russian.words, russian.question_mark) == (1.0, 3, True)
    half = text_features("ab 你好")
    assert (half.latin, half.other_script) == (0.5, 0.5)
    assert (text_features("12 !").latin, text_features("12 !").other_script) == (1.0, 0.0)
    assert text_features("我的订单在哪里").words == text_features("我的订单在哪里").rest > 2


def test_odd_texts_and_long_ones() -> None:
    """C2: nothing raises, and only the beginning is read."""
    for text in ODD_TEXTS:
        found = text_features(text)
        assert found.characters <= READ_CHARACTERS
        assert 0.0 <= found.latin <= 1.0
    assert text_features("") == TextFeatures()
    assert text_features("word " * 400 + "me@example.com") == text_features("word " * 400)


def test_form_plays_no_part() -> None:
    """C2: full width, invisible characters and repeated space read the same."""
    assert text_features("ｙｅｓ\u200b   please") == text_features("yes please")
