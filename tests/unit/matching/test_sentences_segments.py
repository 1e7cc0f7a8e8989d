"""The parts of a long message."""

import pytest
from hypothesis import given, strategies as st

from turnwise.matching.sentences import MOST_WORDS, segments

STORY = (
    "Good morning. I am 81 years old and my daughter gave me this address. I am to fly to Palma on the 9th,"
    " and the walking is very long for me since the operation. What does one do?"
)


def test_a_story_is_taken_apart_at_its_sentences() -> None:
    assert segments(STORY) == [
        "Good morning.",
        "I am 81 years old and my daughter gave me this address.",
        "I am to fly to Palma on the 9th, and the walking is very long for me since the operation.",
        "What does one do?",
    ]
    assert segments(STORY.replace("Palma on the 9th", "Palma. On the 9th"))[2] == "I am to fly to Palma."


def test_a_few_words_belong_to_what_stands_before_them() -> None:
    text = f"The parcel with the books for my aunt in Graz never came. Why not? I have waited for it {'very ' * 12}long."
    assert segments(text)[0] == "The parcel with the books for my aunt in Graz never came. Why not?"


@pytest.mark.parametrize("text", ["", "Where is my parcel? It should be here.", "word " * MOST_WORDS, "\n\n", "x" * 100])
def test_a_short_one_is_whole(text: str) -> None:
    assert segments(text) == []


def test_one_that_runs_on_is_taken_apart_at_its_clauses() -> None:
    text = (
        "so we were on the flight back and the pushchair we gave it at the gate like they tell you,"
        " and the frame is bent, who pays"
    )
    parts = segments(text)
    assert len(parts) > 1
    assert all(len(part.split()) <= 22 for part in parts)


def test_without_any_sign_it_is_cut() -> None:
    assert [len(part.split()) for part in segments("word " * 50)] == [16, 16, 18]


def test_of_a_very_long_one_the_beginning_and_the_end_are_read() -> None:
    text = " ".join(f"This is sentence number {number}." for number in range(1_000))
    parts = segments(text)
    alone = [f"This is sentence number {number}." for number in (*range(4), *range(996, 1_000))]
    assert [*parts[:4], *parts[-4:]] == alone
    assert len(parts) == 12
    assert parts[4].startswith("This is sentence number 4. This is sentence number 5. ")


def test_what_lies_between_is_put_together() -> None:
    text = " ".join(f"Sentence number {number}." for number in range(20))
    assert " ".join(segments(text)) == text
    assert [part.count(".") for part in segments(text)] == [1] * 4 + [3] * 4 + [1] * 4


@given(st.lists(st.sampled_from(["one", "two,", "three.", "and", "!", "\n", "-"]), max_size=400).map(" ".join))
def test_nothing_is_lost_of_what_is_not_very_long(text: str) -> None:
    parts = segments(text)
    assert len(parts) <= 12
    assert all(part.strip() for part in parts)
    said = " ".join(parts).split()
    assert all(word in text.split() for word in said)
    if 0 < len(parts) < 12:
        kept = [word for word in text.split() if word not in ("and", "-")]
        assert [word.rstrip(",") for word in said if word not in ("and", "-")] == [word.rstrip(",") for word in kept]


@pytest.mark.parametrize(
    "short", ["Dr. Smith", "e.g. the blue one", "5 p.m. on Friday", "No. 5", "J. Smith", "4.5 kg", "vs. yours"]
)
def test_an_abbreviation_ends_no_part(short: str) -> None:
    text = f"I write to you about the parcel of {short} from the office. When will the next parcel come to my flat?"
    assert segments(text) == [text[: text.index(" When will")], "When will the next parcel come to my flat?"]
