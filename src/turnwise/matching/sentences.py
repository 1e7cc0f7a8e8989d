"""Sentence splitting. A period after an abbreviation, an initial or a list number does not end a sentence.

The abbreviations are English. As in Punkt (Kiss and Strunk, 2006), the next word decides in ambiguous cases.
"""

import itertools
import re

from turnwise.matching.text_features import text_features

_LOOK_BACK = 24
_LOOK_AHEAD = 60

_WORD_BEFORE = re.compile(r"(?:\A|(?<=[\s(\[{\"“”‘«\d]))([^\W\d_]+(?:\.[^\W\d_]+)*)\.\Z")
_LIST_MARK = re.compile(r"(?:\A|[.!?:;]\s|\n)\s*(?:\d{1,2}|[^\W\d_])\.\Z")
_NUMBER = re.compile(r"[(\[#]*\d")
_FIRST_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_ASKS = re.compile(
    r"(?:(?:can|could|would|will|do|did|does|are|is|should|may) (?:you|i|we|there)|i|i'm|i'd|i've|what|what's|how|where|where's"
    r"|why|who)\b"
)

MOST_WORDS = 20
"""Messages of at most this many words are not split."""

_FIRST, _BETWEEN, _LAST = 4, 4, 4  # requests in long messages are mostly at the start or the end
_WORDS, _SPARE, _FEWEST = 16, 6, 3
_READ_CHARACTERS = 4_000  # at either end

_SENTENCES = re.compile(r"(?<=[.!?;:])\s+|(?<!\s)\s*\n\s*")
_CLAUSES = re.compile(r",\s+|(?<!\s)\s+(?=(?:and|but|so|because|then)\s)|\s[-–—]\s")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Abbreviations that never end a sentence.
_NEVER_LAST = _set(
    "mr mrs ms mx dr drs prof messrs mme mlle hon rev e.g eg i.e ie vs viz cf approx ca incl excl esp resp attn aka a.k.a"
)
# Abbreviations only before a number; otherwise words, such as "no".
_BEFORE_NUMBERS = _set("no nos nr nrs num fig figs ext tel vol p pp pg pgs ch sec art para par apt rm ste flt ver v item ref")
# Abbreviations that sometimes end a sentence.
_SELDOM_LAST = _set(
    "etc inc ltd corp co llc bros dept univ assn assoc ave blvd rd st hwy jr sr esq est hr hrs mins secs yr yrs lb lbs oz"
    " appt appts acct accts amt qty mgr mgmt govt intl apt bldg ext tel misc jan feb apr jun jul aug sep sept"
    " oct nov dec tue tues wed thu thur thurs fri"
)
# Abbreviations when capitalized, otherwise words.
_CAPITALISED = _set("Gen Col Lt Sgt Capt Cmdr Maj Gov Sen Rep Pres Mt Ft Mar Mon Sat Sun Min Max Art Fr Sec")
_OPENERS = _set(
    "i i'm i'd i've i'll we we're you your he she it it's they my our the a an this that that's these those there there's"
    " here please also and but so or then if in on at for when while because as since after before yes no ok okay thanks thank"
    " hi hello hey sorry however now not let let's"
)


def split_sentences(pattern: re.Pattern[str], text: str) -> list[str]:
    """Splits the text at the pattern's matches that follow the end of a sentence."""
    found, start = [], 0
    for match in pattern.finditer(text):
        if ends_sentence(text, match.start()):
            found.append(text[start : match.start()])
            start = match.end()
    return [*found, text[start:]]


def ends_sentence(text: str, at: int) -> bool:
    """Returns whether the mark right before `at` ends a sentence.

    False only for a period, with more text on the same line.
    """
    if at < 1 or text[at - 1] != ".":
        return True
    ahead = text[at : at + _LOOK_AHEAD]
    rest = ahead.lstrip()
    if not rest or "\n" in ahead[: len(ahead) - len(rest)]:
        return True
    start = max(at - _LOOK_BACK, 0)
    if _LIST_MARK.search(text, start, at):
        return False
    found = _WORD_BEFORE.search(text, start, at)
    if found is None:
        return True
    word, folded = found[1], found[1].casefold()
    all_caps = len(word) > 1 and word.isupper()  # "CA." is California, "DR." may be a doctor
    if (folded in _NEVER_LAST and not all_caps) or (folded in _BEFORE_NUMBERS and _NUMBER.match(rest)):
        return False
    if folded in _NEVER_LAST | _SELDOM_LAST or word in _CAPITALISED or "." in word or _is_initial(text, found.start(1), word):
        return _looks_like_sentence_start(rest)
    return True


def segments(text: str) -> list[str]:
    """Splits a long text into sentences, and long sentences into parts, in order.

    Returns at most twelve parts: the parts between the first four and the last four are merged into four. Empty when the text
    is short or has one part only. Only both ends of a text above 8,000 characters are used.
    """
    if len(text) > 2 * _READ_CHARACTERS:
        parts = _parts(text[:_READ_CHARACTERS]) + _parts(text[-_READ_CHARACTERS:])
    elif len(text.split(maxsplit=MOST_WORDS)) <= MOST_WORDS:
        return []
    else:
        parts = _parts(text)
    if len(parts) > _FIRST + _BETWEEN + _LAST:
        between = parts[_FIRST:-_LAST]
        cuts = [len(between) * cut // _BETWEEN for cut in range(_BETWEEN + 1)]
        joined = [" ".join(between[start:end]) for start, end in itertools.pairwise(cuts)]
        parts = [*parts[:_FIRST], *joined, *parts[-_LAST:]]
    return parts if len(parts) > 1 else []


def _is_initial(text: str, start: int, word: str) -> bool:
    return len(word) == 1 and word.casefold() != word.upper() and not text[start - 1 : start].isdigit()


def _looks_like_sentence_start(rest: str) -> bool:
    """Returns whether the following text looks like a new sentence, rather than a name or the abbreviation's complement."""
    first = _FIRST_WORD.match(rest)
    if first is None:
        return False
    plain = rest.replace("’", "'")
    if not rest[0].isupper():
        return _ASKS.match(plain) is not None
    word = first[0].replace("’", "'").casefold()
    found = text_features(rest)
    return word in _OPENERS or found.question_word or found.imperative


def _parts(text: str) -> list[str]:
    """Splits all of the text. Very short sentences join the one before."""
    found: list[list[str]] = []
    for sentence in split_sentences(_SENTENCES, text.strip()):
        words = len(sentence.split())
        if found and words < _FEWEST:
            found[-1] += [sentence.strip()] if words else []
        elif words > _WORDS + _SPARE:
            found += [[part] for part in _split_long(sentence)]
        elif words:
            found.append([sentence])
    return [" ".join(part) for part in found]


def _split_long(sentence: str) -> list[str]:
    """Splits a long sentence at clauses, up to a maximum number of words per part; longer clauses are cut."""
    found: list[list[str]] = [[]]
    for clause in _CLAUSES.split(sentence):
        words = clause.split()
        if found[-1] and len(found[-1]) + len(words) > _WORDS:
            found.append([])
        found[-1] += words
        while len(found[-1]) > _WORDS + _SPARE:
            found[-1:] = [found[-1][:_WORDS], found[-1][_WORDS:]]
    return [" ".join(words) for words in found]
