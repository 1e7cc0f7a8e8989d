"""Ranks the entries of a user's memory for a query: by words, meaning, neighbours, speaker and days. Pure: knows no store.

An entry's score is a sum. `docs/decisions.md` says how the constants were chosen.

- Words: BM25 as a share of the score that a short entry with every word of the query would have, so from 0 to about 1.
  A word is a term: folded, without its ending. Frequent words are none.
- Meaning: the cosine of the entry's vector and the query's.
- Neighbours: the entries before and after in the same session, so that an answer is found by its question.
- Speaker: the query names a person, and the entry begins with that name (`Ann: …`).
- Days: the query names a date, a month or a year, and the entry was noted then or in the week after. English and ISO dates.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.matching.normalize import strip_invisible, with_few_marks

K1, B = 0.5, 0.3
WORDS = 1.5
"""Weight of words; the weight of meaning is 1."""
NEIGHBOURS = (0.3, 0.15)
"""Share of the scores of the entries one and two places away, on both sides."""
SPOKE = 0.2
ON_DAY = 0.4
DAYS_AFTER = 7
"""People tell of a day for about a week."""
NO_SESSION = 0
"""The session of entries that have no neighbours."""

_FIRST_YEAR, _LAST_YEAR, _MOST_YEARS = 1970, 9998, 50
_AT_ONCE = 512
"""The vectors that are unpacked at once: they stay in the processor's cache."""

Numbers = NDArray[np.int64]
Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]

TERM_CHARACTERS = 48
"""Longer words are cut."""
ENTRY_TERMS = 512
"""Maximum number of different words of an entry."""
QUERY_TERMS = 64
"""Maximum number of different words of a query."""
SPEAKER = "@"
"""The first character of a speaker's name as a term; no word has it."""

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
_NAMED = re.compile(r"\s*([^\W\d_][\w.'’-]{0,30}(?: [^\W\d_][\w.'’-]{0,30}){0,2}):\s")
_VOWELS = frozenset("aeiouy")
_FREQUENT_WORDS = (
    "a about all also am an and any are as at be been being but by can could did do does doing done don for from had has have"
    " having he her here hers him his how i if in into is isn it its just ll m many may me might mine more most much must my no"
    " not of off on only or other our out over own re s same shall she should so some such t than that the their them then"
    " there these they this those to too up us ve very was we were what when where which who whom whose why will with would"
    " yes you your yours d didn doesn"
)
_FREQUENT = frozenset(_FREQUENT_WORDS.split())
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_NUMBERS = {month: number for number, month in enumerate(_MONTH_NAMES, 1)}
_MONTH = (
    "(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?)"
)
_YEAR = r"(?:,? (?:of )?(?P<year>(?:19|20)\d\d))?"
_ISO = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)-(?P<day>\d\d)\b")
_DAY_FIRST = re.compile(rf"\b(?P<day>\d\d?)(?:st|nd|rd|th)?(?: of)? {_MONTH}\b{_YEAR}")
_MONTH_FIRST = re.compile(rf"\b{_MONTH} (?P<day>\d\d?)(?:st|nd|rd|th)?\b(?!:){_YEAR}")
# "May" and "March" are also verbs: without a day they need a word or a year beside them.
_IN_MONTH = re.compile(rf"\b(?:in|during|since|until|of|early|mid|late|last|this) {_MONTH}\b{_YEAR}")
_MONTH_AND_YEAR = re.compile(rf"\b{_MONTH}{_YEAR[:-1]}")
_IN_YEAR = re.compile(r"\b(?:in|during|of) (?P<year>(?:19|20)\d\d)\b")
_AGO = re.compile(r"\b(?P<count>\d\d?|an?|one|two|three|four|five|six) (?P<unit>day|week|month)s? ago\b")
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_NEAR = {"today": (0, 0), "yesterday": (1, 1), "last week": (7, 13), "this week": (0, 6), "last month": (28, 61)}
_DAYS = {"day": 1, "week": 7, "month": 30}

READ_CHARACTERS = 2_000
"""Days are read up to here."""


class Postings(NamedTuple):
    """The entries that have one term."""

    numbers: Numbers
    counts: Floats
    """How often each has it."""
    lengths: Floats
    """How many words each has."""


class CodedVectors(NamedTuple):
    """Vectors as signed bytes: a quarter of the memory of float32, at an error of about 0.0005 in a cosine."""

    codes: NDArray[np.int8]
    """One row for each vector."""
    scales: Floats
    """The factor of each row."""

    @classmethod
    def of(cls, vectors: Floats) -> "CodedVectors":
        """Returns the vectors, coded. The codes of a row depend on that row alone."""
        scales = (np.maximum(np.abs(vectors).max(axis=1), 1e-9) / 127).astype(np.float32)
        return cls(np.rint(vectors / scales[:, None]).astype(np.int8), scales)

    def products(self, vector: Floats) -> Floats:
        """Returns the scalar product of each row with a vector."""
        products = np.empty(len(self.codes), np.float32)
        unpacked = np.empty((min(_AT_ONCE, len(products)), len(vector)), np.float32)
        for start in range(0, len(products), _AT_ONCE):
            codes = self.codes[start : start + _AT_ONCE]
            rows = unpacked[: len(codes)]
            rows[...] = codes
            # In this thread: a matrix product may start several, and they wait for each other longer than they work.
            np.vecdot(rows, vector, out=products[start : start + len(codes)])
        products *= self.scales
        return products


@dataclass(frozen=True, slots=True)
class Entries:
    """The data of a user's entries that ranking reads. Rows are in the order in which they were noted."""

    numbers: Numbers
    """Rising."""
    sessions: Numbers
    """The session in which each was said; NO_SESSION for entries without neighbours."""
    times: NDArray[np.float64]
    """When each was said, in seconds since 1970 UTC."""
    vectors: CodedVectors | None = None
    """One for each entry, of length 1; zeros for an entry without one. None means that no entry has one."""

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A query that was read: what the store looks up, and what is compared."""

    text: str
    terms: tuple[str, ...]
    """The postings that the query needs."""
    vector: Floats | None = None
    today: date | None = None
    """The day from which "yesterday" counts; None ignores such words."""

    @classmethod
    def read(cls, text: str, vector: Floats | None = None, *, now: datetime | None = None) -> "RecallQuery":
        """Reads a query. `vector` has length 1; None ranks by words alone."""
        return cls(text, query_terms(text), vector, None if now is None else now.astimezone(UTC).date())


@dataclass(frozen=True, slots=True)
class Ranked:
    """One entry of a ranking, with the parts of its score."""

    number: int
    score: float
    """Comparable only within one ranking: higher fits better."""
    words: float
    """From 0 to about 1: how much of the query's words the entry has."""
    meaning: float
    """Cosine, -1 to 1; 0 without vectors."""
    neighbours: float
    """What adjacent entries added."""
    spoke: bool
    """The query names the entry's speaker."""
    on_day: bool
    """The entry is of a time that the query names."""

    @property
    def reason(self) -> str:
        """Returns the parts as text, largest first."""
        parts = [
            (WORDS * self.words, f"words {self.words:.2f}"),
            (self.meaning, f"meaning {self.meaning:.2f}"),
            (self.neighbours, f"neighbouring entries {self.neighbours:.2f}"),
            (SPOKE * self.spoke, "said by a person of that name"),
            (ON_DAY * self.on_day, "of the named time"),
        ]
        return ", ".join(text for value, text in sorted(parts, reverse=True) if value > 0.005)


class Days(NamedTuple):
    """A range of days, both included."""

    first: date
    last: date


def rank(
    query: RecallQuery,
    entries: Entries,
    postings: Mapping[str, Postings],
    *,
    words: int,
    allowed: Mask | None = None,
    limit: int = 10,
) -> list[Ranked]:
    """Returns the entries that fit the query best, best first; of equal ones the newer first.

    Without a vector, or for entries without one, an entry needs a word of the query, a neighbour with one, or a named day.

    Args:
        postings: Those of the query's terms; terms that no entry has may be missing. Numbers that `entries` lacks are ignored.
        words: The number of words of all entries, for the mean length.
        allowed: Rows that may be returned; the others lift no neighbour. None means all.
        limit: Maximum number of entries returned.
    """
    count = len(entries)
    if count == 0 or limit < 1:
        return []
    spoke, names = _speakers(entries, postings)
    by_words = _by_words(query, entries, postings, names, words / count)
    by_meaning = _by_meaning(query, entries)
    on_day = _on_day(query, entries.times)
    own = WORDS * by_words + by_meaning
    neighbours = _neighbours(own, entries.sessions, allowed)
    scores = own + neighbours + SPOKE * spoke + ON_DAY * on_day
    found = (by_words > 0) | (by_meaning != 0) | (neighbours > 0) | on_day
    if allowed is not None:
        found &= allowed
    rows = _best(scores, np.flatnonzero(found), limit)
    columns = (entries.numbers, scores, by_words, by_meaning, neighbours, spoke, on_day)
    return [Ranked(*row) for row in zip(*(column[rows].tolist() for column in columns), strict=True)]


def _rows(numbers: Numbers, entries: Entries) -> tuple[Numbers, Mask]:
    """Returns the row of each number, and whether there is one."""
    first, last = int(entries.numbers[0]), int(entries.numbers[-1])
    if last - first + 1 == len(entries):  # without gaps, no search is needed
        rows = numbers - first
        known = (rows >= 0) & (rows < len(entries))
        return np.where(known, rows, 0), known
    rows = np.searchsorted(entries.numbers, numbers)
    rows[rows == len(entries)] = 0
    return rows, entries.numbers[rows] == numbers


def _speakers(entries: Entries, postings: Mapping[str, Postings]) -> tuple[Mask, frozenset[str]]:
    """Returns the rows that a named person said, and the words of the query that are such names."""
    spoke = np.zeros(len(entries), bool)
    names = set()
    for term, posting in postings.items():
        if term.startswith(SPEAKER) and len(posting.numbers):
            rows, known = _rows(posting.numbers, entries)
            spoke[rows[known]] = True
            names.add(name_word(term))
    return spoke, frozenset(names)


def _by_words(
    query: RecallQuery, entries: Entries, postings: Mapping[str, Postings], names: frozenset[str], average: float
) -> Floats:
    """Returns BM25 as a share of its highest value, over the words that some entry has.

    Names of speakers are left out: who is addressed says little about what a text is about.
    """
    scores: Floats = np.zeros(len(entries), np.float32)
    highest = 0.0
    for term in query.terms:
        posting = postings.get(term)
        if posting is None or not len(posting.numbers) or term.startswith(SPEAKER) or term in names:
            continue
        frequency = len(posting.numbers)
        weight = float(np.log1p(max(0.5, len(entries) - frequency + 0.5) / (frequency + 0.5)))
        rows, known = _rows(posting.numbers, entries)
        saturation = posting.counts + K1 * (1.0 - B + B * posting.lengths / max(1.0, average))
        scores[rows[known]] += (weight * posting.counts / saturation)[known]
        highest += weight
    return scores / np.float32(highest) if highest else scores


def _by_meaning(query: RecallQuery, entries: Entries) -> Floats:
    if query.vector is None or entries.vectors is None:
        return np.zeros(len(entries), np.float32)
    return entries.vectors.products(query.vector)


def _neighbours(own: Floats, sessions: Numbers, allowed: Mask | None) -> Floats:
    """Returns what the neighbours add: a share of how far their scores lie above the mean."""
    above: Floats = own - own.mean()
    above[sessions == NO_SESSION] = 0.0
    if allowed is not None:
        above[~allowed] = 0.0
    order = None
    if (np.diff(sessions) < 0).any():  # sessions that took place at the same time
        order = np.argsort(sessions, kind="stable")
        above, sessions = above[order], sessions[order]
    lifted: Floats = np.zeros_like(above)
    for distance, share in enumerate(NEIGHBOURS, 1):
        together = share * (sessions[distance:] == sessions[:-distance])
        lifted[distance:] += together * above[:-distance]
        lifted[:-distance] += together * above[distance:]
    if order is None:
        return lifted
    back: Floats = np.empty_like(lifted)
    back[order] = lifted
    return back


def _on_day(query: RecallQuery, times: NDArray[np.float64]) -> Mask:
    """Returns the rows of a time that the query names."""
    first, last = (datetime.fromtimestamp(float(time), UTC).year for time in (times.min(), times.max()))
    years = range(max(first, _FIRST_YEAR), min(last, _LAST_YEAR) + 1)
    on_day = np.zeros(len(times), bool)
    for days in named_days(query.text, today=query.today, years=years[-_MOST_YEARS:]):
        start, end = _seconds(days)
        on_day |= (times >= start) & (times < end)
    return on_day


def _seconds(days: Days) -> tuple[float, float]:
    day = 86_400.0
    start, last = ((each - date(1970, 1, 1)).days * day for each in days)
    return start, last + (1 + DAYS_AFTER) * day


def _best(scores: Floats, rows: Numbers, limit: int) -> Numbers:
    """Returns the rows of the highest scores, best first."""
    if len(rows) > 8 * limit:
        least = np.partition(scores[rows], len(rows) - limit)[len(rows) - limit]
        rows = rows[scores[rows] >= least]
    return rows[np.lexsort((-rows, -scores[rows]))][:limit]


def terms(text: str) -> Counter[str]:
    """Returns the words of a text with their counts, at most `ENTRY_TERMS`: the most frequent, else the first.

    A text that begins with `Name:` also has its speaker's name, marked with `SPEAKER`. In scripts without spaces, each pair
    of adjacent characters is a word.
    """
    found = Counter(_words(_folded(text)))
    named = _NAMED.match(text)
    if named is not None:
        found.update({SPEAKER + word[:TERM_CHARACTERS]: 1 for word in _WORD.findall(_folded(named[1]))})
    return Counter(dict(found.most_common(ENTRY_TERMS))) if len(found) > ENTRY_TERMS else found


def query_terms(text: str) -> tuple[str, ...]:
    """Returns the terms that a query looks up: at most `QUERY_TERMS` words, and as many names of speakers."""
    folded = _folded(text)
    words = dict.fromkeys(_words(folded))
    names = dict.fromkeys(SPEAKER + word[:TERM_CHARACTERS] for word in _WORD.findall(folded) if word not in _FREQUENT)
    return (*list(words)[:QUERY_TERMS], *list(names)[:QUERY_TERMS])


def name_word(name: str) -> str:
    """Returns the word as which a speaker's name occurs in a text."""
    return _stem(name.removeprefix(SPEAKER))


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", with_few_marks(strip_invisible(text))).casefold()


def _words(folded: str) -> Iterator[str]:
    """Yields the words' stems without frequent words; scripts without spaces as pairs of characters."""
    for word in _WORD.findall(folded):
        unspaced = None if word.isascii() else _UNSPACED.search(word)
        if unspaced is not None:
            run = unspaced[0]
            yield from (run[at : at + 2] for at in range(max(1, len(run) - 1)))
        elif word not in _FREQUENT:
            yield _stem(word)


@lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    """Returns an English word without the ending of its plural, tense or participle.

    The result is a key, not a word: forms of one word share it. Memory stores these keys: after a change here, stored entries
    are neither found nor removed by their words.
    """
    word = word[:TERM_CHARACTERS]
    if len(word) < 4 or not word.isascii():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("sses"):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and not _VOWELS.isdisjoint(rest):
            word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest
            break
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 3 and word.endswith("y") else word


def named_days(text: str, *, today: date | None = None, years: range = range(0)) -> list[Days]:
    """Returns the ranges of days that a text names, in the order of their kinds.

    Args:
        text: Any text; its first 2,000 characters are read.
        today: The day from which "yesterday" and "last week" count; None ignores such words.
        years: The years for a date that names none, at most 50.
    """
    plain = " ".join(text[:READ_CHARACTERS].lower().split())
    found = [days for pattern in (_ISO, _DAY_FIRST, _MONTH_FIRST) for days in _days_of_dates(pattern, plain, years)]
    if not found:
        found = [days for pattern in (_IN_MONTH, _MONTH_AND_YEAR) for days in _days_of_dates(pattern, plain, years)]
    if not found:
        found = [Days(date(year, 1, 1), date(year, 12, 31)) for year in map(int, _IN_YEAR.findall(plain))]
    return list(dict.fromkeys(found + (list(_days_from_today(plain, today)) if today is not None else [])))


def _days_of_dates(pattern: re.Pattern[str], text: str, years: range) -> Iterator[Days]:
    """Yields the days that a pattern's matches name, in each of the years where the text names none."""
    for match in pattern.finditer(text):
        named = match.groupdict()
        month = int(named["month"]) if named["month"].isdigit() else _MONTH_NUMBERS[named["month"][:3]]
        for year in [int(named["year"])] if named["year"] else years[-50:]:
            try:
                if named.get("day"):
                    day = date(year, month, int(named["day"]))
                    yield Days(day, day)
                else:
                    following = date(year + month // 12, month % 12 + 1, 1)
                    yield Days(date(year, month, 1), following - timedelta(days=1))
            except ValueError:  # no such day
                continue


def _days_from_today(text: str, today: date) -> Iterator[Days]:
    """Yields the days that words count from today: "yesterday", "three weeks ago"."""
    for words, (first, last) in _NEAR.items():
        if re.search(rf"\b{words}\b", text):
            yield Days(today - timedelta(days=last), today - timedelta(days=first))
    for match in _AGO.finditer(text):
        count = _COUNTS.get(match["count"]) or int(match["count"])
        unit = _DAYS[match["unit"]]
        middle, around = count * unit, unit // 2
        yield Days(today - timedelta(days=middle + around), today - timedelta(days=middle - around))
