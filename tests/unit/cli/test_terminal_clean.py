"""What others wrote, made safe for a terminal."""

import json

import pytest
from hypothesis import given, settings, strategies as st

from turnwise.cli.terminal import Cleaner, clean, one_line, replace_undecodable, safe_json

HARMFUL = ["\x1b", "\x9b", "\x07", "\x08", "\x00", "\r", "\x7f", "\x9d", "\u202e", "\u2066", "\ufeff", "\U000e0041"]
PIECES = st.lists(
    st.sampled_from(["\x1b", "[", "]", "3", "1m", "0;", "m", "\x07", "\x9b", "\\", "P", " ", "a", "\r", "\n", "é"])
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢字 👩‍👩‍👧\n\ttab", "plain é 漢字 👩‍👩‍👧\n\ttab"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[H gone", " gone"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq sixel\x1b\\after", "after"),
        ("\x1b(B\x1b=after\x1bcdone", "afterdone"),
        ("one\r\ntwo\roverwritten", "one\ntwooverwritten"),
        ("back\x08\x08space\x7f\x00", "backspace"),
        ("user\u202etxt.exe\u2066", "usertxt.exe"),
        ("a\u2028b", "a\nb"),
        ("\x1b\x1b[31m[32mnested", "nested"),
        ("[bold]markup[/bold] :smile:", "[bold]markup[/bold] :smile:"),
        ("\ud800", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_control_sequences_are_taken_out(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(PIECES)
@settings(max_examples=100)
def test_nothing_harmful_is_left(pieces: list[str]) -> None:
    shown = clean("".join(pieces))
    assert [character for character in HARMFUL if character in shown] == []


@given(PIECES)
@settings(max_examples=100)
def test_nothing_harmful_is_left_of_a_stream(pieces: list[str]) -> None:
    cleaner = Cleaner()
    shown = "".join([*(cleaner.feed(piece) for piece in pieces), cleaner.rest()])
    assert [character for character in HARMFUL if character in shown] == []


@pytest.mark.parametrize(
    "text", ["a\x1b[31mred\x1b[0m b", "x\x1b]0;title\x07y", "x\x1b]0;title\x1b\\y", "\x1bPdata\x1b\\z", "é\x9b1mü"]
)
def test_a_sequence_cut_across_pieces_is_taken_out(text: str) -> None:
    cleaner = Cleaner()
    assert "".join([*(cleaner.feed(character) for character in text), cleaner.rest()]) == clean(text)


def test_plain_pieces_are_not_held_back() -> None:
    cleaner = Cleaner()
    assert [cleaner.feed(piece) for piece in ("Hel", "lo", "\x1b", "[1m", "!")] == ["Hel", "lo", "", "", "!"]


def test_a_sequence_without_end_is_not_held_for_ever() -> None:
    cleaner = Cleaner()
    shown = cleaner.feed("\x1b]0;") + cleaner.feed("x" * 5_000) + cleaner.feed("y")
    assert shown.endswith("xy")


def test_one_line() -> None:
    assert one_line(" a\n\tb\x1b[31m  c ") == "a b c"
    assert one_line("word " * 10, 12) == "word word w…"


def test_undecodable_bytes_are_replaced() -> None:
    assert replace_undecodable(b"caf\xe9 \xc3\xa9".decode("utf-8", "surrogateescape")) == "caf\N{REPLACEMENT CHARACTER} é"


def test_json_stays_the_same_value() -> None:
    value = {"a": "\x9b31m \u202e \x7f é \u2028"}
    encoded = safe_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(encoded) == value
    assert [character for character in HARMFUL if character in encoded] == []
    assert "é" in encoded
