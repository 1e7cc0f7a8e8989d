"""Shapes and checksums of numbers."""

import pytest

from turnwise.guardrails.personal_data import IBAN_LENGTH, is_card, is_iban, is_ssn


@pytest.mark.parametrize(
    "number",
    [
        "4111 1111 1111 1111",
        "4222222222222",
        "5555555555554444",
        "2223003122003222",
        "378282246310005",
        "3782 822463 10005",
        "30569309025904",
        "3056 930902 5904",
        "6011111111111117",
        "3530111333300000",
        "6200000000000005",
    ],
)
def test_cards_of_known_issuers(number: str) -> None:
    assert is_card(number.encode().split())


@pytest.mark.parametrize(
    "number",
    ["4111 1111 1111 1112", "1234567812345670", "41 11 11 11 11 11 11 11", "4111111 111111111", "0000000000000000", "411111"],
)
def test_what_is_no_card(number: str) -> None:
    """A wrong checksum, an unknown issuer, groups that no card has."""
    assert not is_card(number.encode().split())


@pytest.mark.parametrize(
    "number", ["DE89370400440532013000", "gb82west12345698765432", "NO9386011117947", "MT84MALT011000012345MTLCAST001S"]
)
def test_accounts(number: str) -> None:
    assert is_iban(number.encode())


@pytest.mark.parametrize("number", ["DE88370400440532013000", "DE8937040044053201300", "XX89370400440532013000", "", "NO"])
def test_what_is_no_account(number: str) -> None:
    assert not is_iban(number.encode())


def test_each_country_has_one_length() -> None:
    assert all(15 <= length <= 33 and len(country) == 2 for country, length in IBAN_LENGTH.items())
    assert len(IBAN_LENGTH) > 75


@pytest.mark.parametrize(
    ("digits", "fits"),
    [
        (b"123456789", True),
        (b"000456789", False),
        (b"666456789", False),
        (b"900456789", False),
        (b"123006789", False),
        (b"123450000", False),
    ],
)
def test_social_security_numbers(digits: bytes, fits: bool) -> None:
    assert is_ssn(digits) is fits
