"""Detects personal data: e-mail addresses, phone numbers, payment cards, bank accounts, social security numbers."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple

from turnwise.facts.errors import ConfigError
from turnwise.guardrails.replacing import PLACES, Action, Finding, Replacing, compiled, is_isolated, spans
from turnwise.ports.guardrail import Place

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
"""Length of an IBAN by country code."""
_IBAN_DIGITS = 6


def is_card(groups: Sequence[bytes]) -> bool:
    """Returns whether groups of digits form a card number: a known issuer, a usual grouping, and a valid checksum."""
    if len(groups) > 1 and tuple(map(len, groups)) not in _CARD_SHAPES:
        return False
    digits = b"".join(groups)
    known = any(len(digits) in lengths and int(digits[:count]) in issuers for issuers, count, lengths in _CARDS)
    return known and _has_luhn(digits)


def is_iban(number: bytes) -> bool:
    """Returns whether letters and digits without spaces form an IBAN: the country's length, and remainder 1 modulo 97."""
    number = number.upper()
    if len(number) != IBAN_LENGTH.get(number[:2].decode("latin-1")) or sum(map(_is_digit, number)) < _IBAN_DIGITS:
        return False
    return int("".join(str(int(chr(byte), 36)) for byte in number[4:] + number[:4])) % 97 == 1


def is_ssn(digits: bytes) -> bool:
    """Returns whether nine digits may be a United States social security number."""
    area = digits[:3]
    return area not in {b"000", b"666"} and area < b"900" and digits[3:5] != b"00" and digits[5:] != b"0000"


def _has_luhn(digits: bytes) -> bool:
    values = [byte - 48 for byte in reversed(digits)]
    return (sum(values[::2]) + sum(sum(divmod(2 * value, 10)) for value in values[1::2])) % 10 == 0


def _is_digit(byte: int) -> bool:
    return 48 <= byte <= 57


Kind = Literal["e-mail", "iban", "card", "ssn", "phone"]
Span = tuple[int, int]

_EMAIL = rb"[A-Za-z0-9\xe0._%+-]{1,64}@[A-Za-z0-9\xe0-][A-Za-z0-9\xe0.-]{0,80}\.[A-Za-z]{2}[A-Za-z0-9\xe0-]{0,61}"
_IBAN = rb"[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]){11,29}"
_CARD_RUN = rb"[0-9](?:[ -]?[0-9]){12,}"
_DIGITS = rb"[0-9]+"
_SSN = rb"[0-9]{3}-[0-9]{2}-[0-9]{4}"
_NAMED_SSN = (
    rb"(?i)\b(?:ssn|social security(?: number| no)?)[.:#]?(?: (?:is|of|was))?[.:#]? ?"
    rb"([0-9]{3}[ .-]?[0-9]{2}[ .-]?[0-9]{4})"
)
_NUMBER = rb"\+?\(?[0-9](?:[ ./()-]{0,2}[0-9]){6,14}"
_NAMED_PHONE = (
    rb"(?i)\b(?:phone|telephone|tel|mobile|cell|fax|whatsapp|call|text|ring)"
    rb"(?: (?:number|no|nr|me|us|him|her|them|is|at|on)){0,4}[.:]{0,2} {0,2}(" + _NUMBER + rb")"
)
_WORLD_PHONE = rb"\+[1-9](?:[ ./()-]{0,2}[0-9]){7,14}|00[1-9][0-9]{0,2}[ /-](?:[ ./()-]{0,2}[0-9]){6,12}"
_AMERICAN_PHONE = rb"(?:1[ .-])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[ .-])[2-9][0-9]{2}[ .-][0-9]{4}"
_LOCAL_PHONE = rb"\(?0[1-9][0-9]{0,4}\)?[ /-]{1,2}[0-9]{2,8}(?:[ /-][0-9]{2,8}){0,4}"
_DATE = rb"^[0-9]{1,2}[/-][0-9]{1,2}[/-][0-9]{2,4}\b"
_LOCAL_DIGITS = range(9, 13)


class Rule(NamedTuple):
    """One detection rule."""

    find: Callable[[bytes], Iterable[Span]]
    """Returns the spans of the matches."""
    reach: int
    """How many characters a match and its context may span."""
    digits: int
    """Fewest digits in a text that can match."""


def find(data: bytes, kinds: Iterable[Kind]) -> Iterator[Finding]:
    """Yields the findings of these kinds. Text that one rule matched is hidden from the next."""
    left = bytearray(data)
    digits = len(data) - len(data.translate(None, b"0123456789"))
    for kind, rule in RULES.items():
        if kind in kinds and digits >= rule.digits:
            for start, end in list(rule.find(bytes(left))):
                left[start:end] = bytes(end - start)
                yield Finding(start, end, kind)


def reach_of(kinds: Iterable[Kind]) -> int:
    """Returns how many characters of context these kinds need."""
    return max((RULES[kind].reach for kind in kinds), default=0)


def _emails(data: bytes) -> Iterator[Span]:
    return spans(_EMAIL, data) if b"@" in data else iter(())


def _ibans(data: bytes) -> Iterator[Span]:
    """Yields the places of bank account numbers with a valid checksum."""
    at = 0
    while (match := compiled(_IBAN).search(data, at)) is not None:
        start = match.start()
        end = _iban_end(data, start, match.end())
        if end and is_isolated(data, start, end):
            yield start, end
        at = end or start + 1


def _iban_end(data: bytes, start: int, end: int) -> int:
    """Returns where an IBAN that begins at `start` ends, by its country's length; 0 when there is none."""
    length = IBAN_LENGTH.get(data[start : start + 2].decode("latin-1").upper(), 0)
    positions = [position for position in range(start, end) if data[position] not in b" -"][:length]
    return positions[-1] + 1 if length and is_iban(bytes(data[position] for position in positions)) else 0


def _cards(data: bytes) -> Iterator[Span]:
    """Yields the places of payment card numbers: groups of digits of a card's length and checksum."""
    for start, end in spans(_CARD_RUN, data):
        groups = [(start + first, start + last) for first, last in spans(_DIGITS, data[start:end])]
        at = 0
        while at < len(groups):
            count = _card_groups(data, groups[at : at + 5])
            if count:
                yield groups[at][0], groups[at + count - 1][1]
            at += count or 1


def _card_groups(data: bytes, groups: list[Span]) -> int:
    """Returns how many of the leading groups form a card number, as many as possible; 0 = none."""
    for count in range(len(groups), 0, -1):
        first, last = groups[0][0], groups[count - 1][1]
        if is_card([data[start:end] for start, end in groups[:count]]) and is_isolated(
            data, first, last, before=b".,_", after=b".,_"
        ):
            return count
    return 0


def _ssns(data: bytes) -> Iterator[Span]:
    """Yields the places of social security numbers, with or without their name before them."""
    named = [span for span in spans(_NAMED_SSN, data, 1) if _may_be_ssn(data, *span)]
    yield from named
    for start, end in spans(_SSN, data):
        isolated = is_isolated(data, start, end, before=b"-./#_", after=b"-./_")
        if isolated and _may_be_ssn(data, start, end) and all(end <= first or start >= last for first, last in named):
            yield start, end


def _may_be_ssn(data: bytes, start: int, end: int) -> bool:
    return is_isolated(data, start, end) and is_ssn(_digits(data[start:end]))


def _phones(data: bytes) -> Iterator[Span]:
    """Yields the places of phone numbers: named, international, American, local. Each digit counts once."""
    left = bytearray(data)
    for pattern, group, fits in (
        (_NAMED_PHONE, 1, _fits),
        (_WORLD_PHONE, 0, _fits),
        (_AMERICAN_PHONE, 0, _fits),
        (_LOCAL_PHONE, 0, _fits_locally),
    ):
        for start, end in list(spans(pattern, bytes(left), group)):
            if fits(data, start, end):
                left[start:end] = bytes(end - start)
                yield start, end


def _fits(data: bytes, start: int, end: int) -> bool:
    return is_isolated(data, start, end, before=b"-./#_+,", after=b"-./:,_")


def _fits_locally(data: bytes, start: int, end: int) -> bool:
    number = data[start:end]
    return _fits(data, start, end) and len(_digits(number)) in _LOCAL_DIGITS and not compiled(_DATE).search(number)


def _digits(data: bytes) -> bytes:
    return b"".join(data[start:end] for start, end in spans(_DIGITS, data))


RULES: dict[Kind, Rule] = {
    "e-mail": Rule(_emails, 152, digits=0),
    "iban": Rule(_ibans, 68, digits=8),
    "card": Rule(_cards, 26, digits=13),
    "ssn": Rule(_ssns, 52, digits=9),
    "phone": Rule(_phones, 92, digits=7),
}
"""The rules in order of precedence."""


KINDS: tuple[Kind, ...] = tuple(RULES)


class PersonalData(Replacing):
    """Replaces personal data with `[e-mail]`, `[phone]`, `[card]`, `[iban]` and `[ssn]`, or blocks content that holds it.

    Cards and bank accounts are recognized by their checksums, phone numbers by their format or by the words before them.

    Args:
        kinds: The kinds of data to look for.
        action: `rewrite` or `block`.
        places: Where to check.
        name: The guardrail's name in results.

    Raises:
        ConfigError: A kind, action or place is unknown.
    """

    def __init__(
        self,
        *,
        kinds: Collection[Kind] = KINDS,
        action: Action = "rewrite",
        places: Collection[Place] = PLACES,
        name: str = "personal-data",
    ) -> None:
        for kind in kinds:
            if kind not in RULES:
                raise ConfigError(f"The guardrail {name!r} does not know {kind!r}.", fix=f"Kinds are {', '.join(KINDS)}.")
        wanted = frozenset(kinds)
        super().__init__(
            name, "personal data", partial(find, kinds=wanted), reach=reach_of(wanted), action=action, places=places
        )
