"""Where sentences end."""

import re
from itertools import product

import pytest
from hypothesis import given, strategies as st

from turnwise.matching.sentences import ends_sentence, split_sentences

SPACE = re.compile(r"(?<=[.!?;:])\s+")
ALWAYS = ["Dr.", "dr.", "Mr.", "Mrs.", "Ms.", "Prof.", "e.g.", "E.g.", "i.e.", "vs.", "approx.", "cf.", "incl."]
SELDOM = [
    "p.m.",
    "a.m.",
    "etc.",
    "Inc.",
    "Ltd.",
    "Ave.",
    "St.",
    "Jr.",
    "U.S.",
    "U.K.",
    "Jan.",
    "Fri.",
    "dept.",
    "J.",
    "B.",
    "Ph.D.",
]
BEFORE_NUMBERS = ["No.", "no.", "Nr.", "Fig.", "ext.", "Vol.", "p.", "apt.", "Art."]
NAMES = ["Smith", "Kennedy", "Friday", "Bank", "Mary", "Eastern"]
REQUESTS = [
    "Please call me.",
    "Where is my order?",
    "I need a taxi.",
    "Can you help?",
    "Book a table for two.",
    "The parcel is late.",
]


def parts(text: str) -> list[str]:
    return split_sentences(SPACE, text)


@pytest.mark.parametrize(("short", "after"), [*product(ALWAYS, [*NAMES, "the red one", "5", "Where we met"])])
def test_an_abbreviation_that_something_follows_ends_no_sentence(short: str, after: str) -> None:
    text = f"I want to see {short} {after} today"
    assert parts(text) == [text]


@pytest.mark.parametrize(("short", "after"), [*product(SELDOM, [*NAMES, "at the gate", "and more", "5"])])
def test_an_abbreviation_before_a_name_or_a_small_word_ends_no_sentence(short: str, after: str) -> None:
    text = f"It was {short} {after} as they told me"
    assert parts(text) == [text]


@pytest.mark.parametrize(("short", "request_"), [*product(SELDOM, REQUESTS)])
def test_such_an_abbreviation_ends_a_sentence_before_a_request(short: str, request_: str) -> None:
    assert parts(f"We said {short} {request_}") == [f"We said {short}", request_]


@pytest.mark.parametrize(("short", "number"), [*product(BEFORE_NUMBERS, ["5", "12b", "#7", "(3)"])])
def test_an_abbreviation_of_a_number_needs_its_number(short: str, number: str) -> None:
    assert len(parts(f"I am in {short} {number} of the list")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "It weighs 3.5 kg and costs $4.99 a piece",
        "Order no. 12345 from Jan. 5 to Feb. 7, i.e. five weeks",
        "John F. Kennedy and J. R. R. Tolkien wrote to George W. Bush",
        "1. Where is my parcel",
        "(e.g. a refund)",
        "I NEED TO SEE DR. SMITH OF ACME INC. LONDON",
        "I arrive at 5p.m. on Friday",
        "The Acme Corp. invoice of Smith & Co. came to 42 Main St. Apt. 7",
    ],
)
def test_one_sentence_is_left_whole(text: str) -> None:
    assert parts(text) == [text]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("My answer is no. Where is my order?", 2),
        ("My order is 12345. When does it come?", 2),
        ("I don't. Where is it?", 2),
        ("the visit is at 5 p.m. can you also book a taxi", 2),
        ("i want to pay. when do you open", 2),
        ("Is it Dr.? Yes! Good: then book it; thanks. Bye", 6),
        ("I was out in the sun. please call me", 2),
        ("Two things: 1. Where is my parcel? 2. When do you open?", 3),
        ("See you. Where is it?", 2),
        ("Dear Dr.\nWhere is it", 2),
        ("I go to Long Beach, CA. It's for three", 2),
        ("I LIVE IN JACKSON, MS. WHERE IS MY PARCEL", 2),
    ],
)
def test_sentences_are_told_apart(text: str, count: int) -> None:
    assert len(parts(text)) == count


WORDS = ["parcel", "red", "taxi", "please", "seven", "billing", "office", "it", "don't", "12345", "Paris"]


@given(
    st.lists(
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=6)
        .map(" ".join)
        .flatmap(lambda words: st.sampled_from([f"{words}{mark}" for mark in ".!?;:"])),
        max_size=8,
    )
)
def test_texts_without_abbreviations_are_split_as_the_expression_splits_them(sentences: list[str]) -> None:
    """What has no abbreviation in it reads as it always did."""
    text = " ".join(sentences)
    assert parts(text) == SPACE.split(text)


@given(st.text(alphabet="aB. 1!\n'Dr", max_size=60))
def test_nothing_is_lost_and_only_ends_are_cut(text: str) -> None:
    found = parts(text)
    assert re.sub(r"\s", "", "".join(found)) == re.sub(r"\s", "", text)
    assert len(found) == 1 + sum(ends_sentence(text, match.start()) for match in SPACE.finditer(text))


@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join),
    st.sampled_from([*ALWAYS, *SELDOM]),
    st.sampled_from(["parcel", "red one", "at the office", "Smith"]),
)
def test_an_abbreviation_adds_no_sentence(before: str, short: str, after: str) -> None:
    assert len(parts(f"{before} {short} {after}")) == 1


def test_a_long_word_is_read_in_no_time() -> None:
    text = "x" * 50_000 + ". y" * 10_000
    assert len(parts(text)) >= 1
