"""How personal data is recognised (C13)."""

import pytest

from turnwise.guardrails.personal_data import RULES, find
from turnwise.guardrails.replacing import kinds_in, with_labels


def left(text: str) -> str:
    return with_labels(text, lambda data: find(data, RULES))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mail bob.smith+x@mail.example.co.uk.", "mail [e-mail]."),
        ("<müller@köln.de>", "<[e-mail]>"),
        ("....................bob@example.com", "[e-mail]"),
        ("call +49 (0) 30 123456-78.", "call [phone]."),
        ("0049 30 1234567", "[phone]"),
        ("(415) 555-2671 or 1-415-555-2671", "[phone] or [phone]"),
        ("030 1234567, 020 7946 0958, 06 12 34 56 78", "[phone], [phone], [phone]"),
        ("Call me at 4155552671!", "Call me at [phone]!"),
        ("4111 1111 1111 1111", "[card]"),
        ("cards 4111-1111-1111-1111 and 378282246310005.", "cards [card] and [card]."),
        ("12 4111 1111 1111 1111 3", "12 [card] 3"),
        ("IBAN DE89 3704 0044 0532 0130 00 thanks", "IBAN [iban] thanks"),
        ("AB12 DE89370400440532013000", "AB12 [iban]"),
        ("ssn 123-45-6789", "ssn [ssn]"),
        ("My SSN is 123456789.", "My SSN is [ssn]."),
        ("４１１１ １１１１ １１１１ １１１１", "[card]"),
        ("4\u200b111\u200b111111111111", "[card]"),
    ],
)
def test_what_is_found(text: str, expected: str) -> None:
    assert left(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "order 4111 1111 1111 1112",
        "order AB4111111111111111",
        "order no. 12345678, item 9876543210, invoice 2024-000123-77",
        "I called about order 12345678",
        "on 01-02-2024 10:30, or 01/02/2024 at 12",
        "from 10 000 000 to 1,234,567,890",
        "4.111111111111111 and 0.4111111111111111",
        "123e4567-e89b-12d3-a456-426614174000",
        "192.168.100.200:8080",
        "part 123-45-67890, 000-45-6789, 123-45-6789-0",
        "at user@localhost, @handle, a@b",
        "the 2023-2024 season, 1990-01-01T00:00:00",
        "GB82 is not an account, nor is DE88370400440532013000",
        "version 1.2.3.4.5.6.7.8.9.10.11",
    ],
)
def test_order_numbers_dates_and_the_like_are_left_alone(text: str) -> None:
    assert left(text) == text


def test_kinds_are_chosen() -> None:
    assert kinds_in("bob@x.org 4111111111111111", lambda data: find(data, {"card"})) == {"card"}


def test_the_cost_does_not_depend_on_what_stands_there() -> None:
    """Linear also for what nearly matches, again and again."""
    for piece in ("DE89 3704 ", "4111 1111 ", "a@b.", "+49 030 ", "(030) 12 ", "call me at ", "1" * 50, "a" * 70 + "@"):
        left(piece * (200_000 // len(piece)))
