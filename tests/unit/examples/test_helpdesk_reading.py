"""What the help desk reads out of messages."""

from datetime import date

import pytest
from helpdesk import reading

TODAY = date(2026, 11, 19)  # a Thursday


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Where is A-10412?", "A-10412"),
        ("a10412", "A-10412"),
        ("it's order 10412, I think", "A-10412"),
        ("order number 10412", "A-10412"),
        ("order #10412", "A-10412"),
        ("I live near 04101", None),
        ("my code is 482913", None),
        ("GC-1001-4471", None),
        ("A-104123", None),
    ],
)
def test_order_number(text: str, number: str | None) -> None:
    assert reading.order_number(text) == number


def test_bare_order_number_is_the_whole_reply() -> None:
    assert reading.bare_order_number(" 10412. ") == "A-10412"
    assert reading.bare_order_number("I have 10412 of them") is None


@pytest.mark.parametrize(
    ("text", "email"),
    [
        ("It's Dana@Example.com.", "dana@example.com"),
        ("<li.wei@example.co.uk>", "li.wei@example.co.uk"),
        ("dana at example", None),
    ],
)
def test_email(text: str, email: str | None) -> None:
    assert reading.email(text) == email


@pytest.mark.parametrize(
    ("text", "code"),
    [("482913", "482913"), ("the code is 482 913", "482913"), ("482-913!", "482913"), ("4829131", None), ("48291", None)],
)
def test_code(text: str, code: str | None) -> None:
    assert reading.code(text) == code


def test_zip_code_is_no_order_number_and_no_code() -> None:
    assert reading.zip_code("near 04101 please") == "04101"
    assert reading.zip_code("A-10412") is None
    assert reading.zip_code("482913") is None


def test_gift_card() -> None:
    assert reading.gift_card("gc 1001 4471") == "GC-1001-4471"
    assert reading.gift_card("GC-1001") is None


@pytest.mark.parametrize(
    ("text", "cents"), [("under $50", 5000), ("less than 29.90 please", 2990), ("up to 100", 10000), ("a lamp for two", None)]
)
def test_price_limit(text: str, cents: int | None) -> None:
    assert reading.price_limit(text) == cents


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("yes", True),
        ("Sure, do it", True),
        ("That's right", True),
        ("no", False),
        ("No, not that one", False),
        ("perhaps", None),
    ],
)
def test_yes_or_no(text: str, answer: bool | None) -> None:
    assert reading.yes_or_no(text) is answer


def test_wants_out_only_when_it_is_all_that_is_said() -> None:
    assert reading.wants_out("Never mind!")
    assert reading.wants_out("please stop")
    assert reading.wants_out("no thanks")
    assert not reading.wants_out("no"), "that may be the reply to a question"
    assert not reading.wants_out("cancel my order")
    assert not reading.wants_out("it does not stop")


def test_wants_nothing_more() -> None:
    assert all(reading.wants_nothing_more(text) for text in ("no", "Ok.", "okay, never mind", "no thanks!"))
    assert not reading.wants_nothing_more("cancel"), "as a message of its own it may be about an order"
    assert not reading.wants_nothing_more("no, the other one")


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("are you open today", date(2026, 11, 19)),
        ("and tomorrow?", date(2026, 11, 20)),
        ("and on Sunday?", date(2026, 11, 22)),
        ("Thursdays?", date(2026, 11, 19)),
        ("on Wednesday", date(2026, 11, 25)),
        ("when do you open", None),
    ],
)
def test_day(text: str, day: date | None) -> None:
    assert reading.day(text, TODAY) == day


def test_town_is_a_whole_word() -> None:
    assert reading.town("in new york please", ["York", "New York", "Boston"]) == "New York"
    assert reading.town("Bostonian shoes", ["Boston"]) is None


def test_words_leave_out_what_says_nothing() -> None:
    assert reading.words("Do you have a desk lamp under $50? The lamp for me.") == ["desk", "lamp"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("2", 1),
        ("the second one", 1),
        ("last", 2),
        ("the kettle", 0),
        ("my chargers", 1),
        ("the blue one", None),
        ("7", None),
        ("volt aurora", None),
    ],
)
def test_choice(text: str, place: int | None) -> None:
    assert reading.choice(text, ["Aurora Glass Kettle", "Volt USB-C Charger", "Harbor Wool Blanket"]) == place


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("It arrived with a crack", "broken"),
        ("it does not work", "broken"),
        ("you sent the wrong size", "wrong item"),
        ("it is not as described", "not as described"),
        ("I don't need it any more", "changed mind"),
        ("because", None),
    ],
)
def test_reason(text: str, reason: str | None) -> None:
    assert reading.reason(text) == reason
