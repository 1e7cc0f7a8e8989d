"""How e-mail addresses, phone numbers, cards, accounts and social security numbers are recognised. Pure.

A number counts only if it stands alone, and by its checksum if it has one: order numbers are numbers too.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from turnwise.guardrails.findings import Finding
from turnwise.guardrails.numbers import IBAN_LENGTH, is_card, is_iban, is_ssn
from turnwise.guardrails.patterns import compiled, spans, stands_alone

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
    """find: where such things stand. reach: how many characters it takes to know. digits: how many the text has at least."""

    find: Callable[[bytes], Iterable[Span]]
    reach: int
    digits: int


def find(data: bytes, kinds: Iterable[Kind]) -> Iterator[Finding]:
    """What is found of these kinds. What one rule found is no part of what the next finds."""
    left = bytearray(data)
    digits = len(data) - len(data.translate(None, b"0123456789"))
    for kind, rule in RULES.items():
        if kind in kinds and digits >= rule.digits:
            for start, end in list(rule.find(bytes(left))):
                left[start:end] = bytes(end - start)
                yield Finding(start, end, kind)


def reach_of(kinds: Iterable[Kind]) -> int:
    """How many characters it takes to know any of these kinds."""
    return max((RULES[kind].reach for kind in kinds), default=0)


def _emails(data: bytes) -> Iterator[Span]:
    return spans(_EMAIL, data) if b"@" in data else iter(())


def _ibans(data: bytes) -> Iterator[Span]:
    at = 0
    while (match := compiled(_IBAN).search(data, at)) is not None:
        start = match.start()
        end = _iban_end(data, start, match.end())
        if end and stands_alone(data, start, end):
            yield start, end
        at = end or start + 1


def _iban_end(data: bytes, start: int, end: int) -> int:
    """Where an account's number that begins there ends, by its country's length; 0 when it is none."""
    wanted = IBAN_LENGTH.get(data[start : start + 2].decode("latin-1").upper(), 0)
    places = [place for place in range(start, end) if data[place] not in b" -"][:wanted]
    return places[-1] + 1 if wanted and is_iban(bytes(data[place] for place in places)) else 0


def _cards(data: bytes) -> Iterator[Span]:
    for start, end in spans(_CARD_RUN, data):
        groups = [(start + first, start + last) for first, last in spans(_DIGITS, data[start:end])]
        at = 0
        while at < len(groups):
            count = _card_groups(data, groups[at : at + 5])
            if count:
                yield groups[at][0], groups[at + count - 1][1]
            at += count or 1


def _card_groups(data: bytes, groups: list[Span]) -> int:
    """How many of these groups make a card's number, the most that do; 0 = none."""
    for count in range(len(groups), 0, -1):
        first, last = groups[0][0], groups[count - 1][1]
        if is_card([data[start:end] for start, end in groups[:count]]) and stands_alone(
            data, first, last, before=b".,_", after=b".,_"
        ):
            return count
    return 0


def _ssns(data: bytes) -> Iterator[Span]:
    named = [span for span in spans(_NAMED_SSN, data, 1) if _may_be_ssn(data, *span)]
    yield from named
    for start, end in spans(_SSN, data):
        alone = stands_alone(data, start, end, before=b"-./#_", after=b"-./_")
        if alone and _may_be_ssn(data, start, end) and all(end <= first or start >= last for first, last in named):
            yield start, end


def _may_be_ssn(data: bytes, start: int, end: int) -> bool:
    return stands_alone(data, start, end) and is_ssn(_digits(data[start:end]))


def _phones(data: bytes) -> Iterator[Span]:
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
    return stands_alone(data, start, end, before=b"-./#_+,", after=b"-./:,_")


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
"""In the order in which they look."""
