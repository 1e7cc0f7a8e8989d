"""Which digits are a card's, an account's or a social security number: shapes and checksums."""

from collections.abc import Sequence

_CARDS: tuple[tuple[range, int, frozenset[int]], ...] = (
    (range(4, 5), 1, frozenset({13, 16, 19})),
    (range(51, 56), 2, frozenset({16})),
    (range(2221, 2721), 4, frozenset({16})),
    (range(34, 35), 2, frozenset({15})),
    (range(37, 38), 2, frozenset({15})),
    (range(300, 306), 3, frozenset({14, 16})),
    (range(36, 37), 2, frozenset({14, 16})),
    (range(38, 40), 2, frozenset({14, 16})),
    (range(6011, 6012), 4, frozenset({16, 19})),
    (range(644, 660), 3, frozenset({16, 19})),
    (range(3528, 3590), 4, frozenset({16, 19})),
    (range(62, 63), 2, frozenset({16, 17, 18, 19})),
    (range(5018, 5039), 4, frozenset({13, 15, 16, 19})),
    (range(6759, 6764), 4, frozenset({13, 15, 16, 19})),
)
_CARD_SHAPES = frozenset({(4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4), (4, 3, 3, 3)})

_IBAN_LENGTHS = {
    length: frozenset(countries.split())
    for length, countries in {
        15: "NO",
        16: "BE",
        18: "DK FI FO GL NL SD FK",
        19: "MK SI",
        20: "AT BA EE KZ LT LU XK MN",
        21: "CH CR HR LI LV",
        22: "BG BH DE GB GE IE ME RS",
        23: "AE GI IL IQ OM TL SO",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU YE",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
}
IBAN_LENGTH = {country: length for length, countries in _IBAN_LENGTHS.items() for country in countries}
"""How many characters an account's number has, by country."""
_IBAN_DIGITS = 6


def is_card(groups: Sequence[bytes]) -> bool:
    """Whether groups of digits, as they are written on a card, make a number of a known issuer with a right checksum."""
    if len(groups) > 1 and tuple(map(len, groups)) not in _CARD_SHAPES:
        return False
    digits = b"".join(groups)
    known = any(len(digits) in lengths and int(digits[:count]) in issuers for issuers, count, lengths in _CARDS)
    return known and _has_luhn(digits)


def is_iban(number: bytes) -> bool:
    """Whether letters and digits without spaces make an account's number: the country's length, and remainder 1 of 97."""
    number = number.upper()
    if len(number) != IBAN_LENGTH.get(number[:2].decode("latin-1")) or sum(map(_is_digit, number)) < _IBAN_DIGITS:
        return False
    return int("".join(str(int(chr(byte), 36)) for byte in number[4:] + number[:4])) % 97 == 1


def is_ssn(digits: bytes) -> bool:
    """Whether nine digits may be a social security number of the United States."""
    area = digits[:3]
    return area not in {b"000", b"666"} and area < b"900" and digits[3:5] != b"00" and digits[5:] != b"0000"


def _has_luhn(digits: bytes) -> bool:
    values = [byte - 48 for byte in reversed(digits)]
    return (sum(values[::2]) + sum(sum(divmod(2 * value, 10)) for value in values[1::2])) % 10 == 0


def _is_digit(byte: int) -> bool:
    return 48 <= byte <= 57
