"""Finds things that a text names by their form: codes, dates, e-mail addresses, amounts, and what patterns with groups name."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import re2

from turnwise.matching.normalize import normalize

READ_CHARACTERS = 2_000
"""A text is read up to here."""
MOST = 20
"""The most things of one text."""
VALUE_CHARACTERS = 200

_EMAIL = re.compile(r"(?<![\w.+\-])[\w.+\-]{1,64}@[\w\-]{1,63}(?:\.[\w\-]{1,63}){1,4}")
_MONEY = re.compile(
    r"[$€£¥₹] ?\d{1,12}(?:[.,]\d{1,3}){0,4}"
    r"|\d{1,12}(?:[.,]\d{1,3}){0,4} ?(?:[$€£¥₹]|(?:usd|eur|gbp|dollars?|euros?|pounds?)\b)",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"(?<![\w/.\-])(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d{1,2}/\d{1,2}"
    r"|\d{1,2}(?:st|nd|rd|th)?(?: of)? (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
    r"|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6} \d{1,2}(?:st|nd|rd|th)?)(?![\w/\-])",
    re.IGNORECASE,
)
_CODE = re.compile(r"(?<![\w@.])#?[A-Za-z0-9]{1,32}(?:[\-_][A-Za-z0-9]{1,32}){0,4}(?![\w@])")
_NAMED_GROUP = re.compile(r"\(\?P?<[A-Za-z_]\w*>")


class Found(NamedTuple):
    """A thing in a text."""

    type: str
    value: str
    """As it was written."""
    normal: str
    """The form in which equal ones are equal."""


def find_entities(text: str, patterns: Sequence[str] = ()) -> list[Found]:
    """Returns the things that the text names, each once, in the order of their kinds. Linear time; any text is allowed.

    Args:
        text: Read up to 2,000 characters.
        patterns: RE2 expressions; each named group that matches gives a thing of that type.
    """
    plain = normalize(text[:READ_CHARACTERS])[:READ_CHARACTERS]
    found: dict[tuple[str, str], Found] = {}
    for thing in (*_declared(plain, patterns), *_by_form(plain)):
        # What a pattern named is not named again as a code.
        if thing.type != "code" or all(normal != thing.normal for _, normal in found):
            found.setdefault((thing.type, thing.normal), thing)
    return list(found.values())[:MOST]


def _declared(plain: str, patterns: Iterable[str]) -> Iterator[Found]:
    """Yields what the patterns' named groups find."""
    for regex in patterns:
        compiled = _compiled(regex)
        match = compiled.search(plain) if compiled is not None else None
        for name, value in match.groupdict().items() if match is not None else ():
            if value and value.strip():
                yield _found_entity(name, value)


@lru_cache(1_024)
def _compiled(regex: str) -> "re2._Regexp[str] | None":
    """Returns the compiled expression; None without a named group, or when RE2 refuses it, which the policy reports."""
    if not _NAMED_GROUP.search(regex):
        return None
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except re2.error:
        return None


def _by_form(plain: str) -> Iterator[Found]:
    """Yields e-mail addresses, amounts, dates and codes. A found one is not read again as another kind."""
    if not any(char.isdigit() or char == "@" for char in plain):
        return
    for kind, form in (("email", _EMAIL), ("money", _MONEY), ("date", _DATE)):
        rest = []
        at = 0
        for match in form.finditer(plain):
            yield _found_entity(kind, match[0])
            rest.append(plain[at : match.start()])
            at = match.end()
        plain = " ".join([*rest, plain[at:]])
    for match in _CODE.finditer(plain):
        if _is_code(match[0]):
            yield _found_entity("code", match[0])


def _is_code(word: str) -> bool:
    digits = sum(map(str.isdigit, word))
    return digits >= 4 or (digits >= 2 and (word.startswith("#") or (len(word) >= 5 and any(map(str.isupper, word)))))


def _found_entity(kind: str, value: str) -> Found:
    value = value.strip()[:VALUE_CHARACTERS]
    return Found(kind, value, value.casefold().removeprefix("#").strip())
