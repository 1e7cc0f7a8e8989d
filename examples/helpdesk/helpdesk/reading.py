"""What a message says, as values: pure functions over text, None or empty when it is not there."""

import re
from collections.abc import Iterable, Sequence
from datetime import date, timedelta

_ORDER = re.compile(r"(?i)\bA[- ]?(\d{5})\b|\b(?:orders?|number|no\.|#)\s*(?:number|no\.?|#)?\s*(\d{5})\b")
_EMAIL = re.compile(r"(?i)[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_ZIP = re.compile(r"(?<![-\w])\d{5}(?![-\w])")
_CODE = re.compile(r"(?<!\d)\d{3}[ -]?\d{3}(?!\d)")
_GIFT_CARD = re.compile(r"(?i)\bGC[- ]?(\d{4})[- ]?(\d{4})\b")
_PRICE = re.compile(
    r"(?i)\b(?:under|below|less than|up to|at most|max(?:imum)?|cheaper than|within)\s*(?:of\s*)?\$?\s*(\d+(?:\.\d\d?)?)"
)
_YES = re.compile(r"(?i)^\W*(?:yes|yep|yeah|sure|ok(?:ay)?|please do|do it|go ahead|(?:that'?s )?right|correct|confirm)\b")
_NO = re.compile(r"(?i)^\W*(?:no|nope|nah|don'?t|do not|wrong|not really)\b")
_LEAVE = r"(?:please )?(?:never ?mind|forget (?:about )?it|leave it)|no,? (?:thanks|thank you)"
_NOTHING_MORE = re.compile(rf"(?i)^\W*(?:ok(?:ay)?\W+)?(?:ok(?:ay)?|no|nope|{_LEAVE})\W*$")
_WANTS_OUT = re.compile(rf"(?i)^\W*(?:{_LEAVE}|(?:please )?(?:stop|cancel|quit)(?: please)?)\W*$")
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_ORDINALS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "last": -1}
_EMPTY_WORD = re.compile(
    r"a|about|also|an|and|any|are|at|available|be|below|buy|buying|by|can|carry|cheaper|cost|costs|"
    r"could|do|does|else|find|for|from|get|give|good|got|has|have|how|i|i'd|i'm|in|instead|is|it|"
    r"items|less|like|looking|max|me|more|much|my|near|need|of|on|one|ones|or|order|our|please|price|"
    r"product|products|purchase|recommend|search|sell|shop|show|some|something|stock|store|stores|suggest|"
    r"than|that|the|them|there|these|this|those|to|under|up|us|want|we|what|what's|which|with|would|"
    r"you|your"
)


def order_number(text: str) -> str | None:
    """`A-10412` for "A-10412", "a10412", "order 10412"."""
    found = _ORDER.search(text)
    return f"A-{found[1] or found[2]}" if found else None


def bare_order_number(text: str) -> str | None:
    """Five digits alone, as a reply to the question for an order."""
    found = re.fullmatch(r"\W*(\d{5})\W*", text)
    return f"A-{found[1]}" if found else None


def email(text: str) -> str | None:
    found = _EMAIL.search(text)
    return found[0].lower() if found else None


def zip_code(text: str) -> str | None:
    found = _ZIP.search(text)
    return found[0] if found else None


def code(text: str) -> str | None:
    """A code of six digits, "482 913" too."""
    found = _CODE.search(text)
    return re.sub(r"\D", "", found[0]) if found else None


def gift_card(text: str) -> str | None:
    found = _GIFT_CARD.search(text)
    return f"GC-{found[1]}-{found[2]}" if found else None


def price_limit(text: str) -> int | None:
    """The highest price that is asked for, in cents."""
    found = _PRICE.search(text)
    return round(float(found[1]) * 100) if found else None


def yes_or_no(text: str) -> bool | None:
    if _NO.search(text):
        return False
    return True if _YES.search(text) else None


def wants_nothing_more(text: str) -> bool:
    """Whether the whole message, as one of its own, only closes what was said: "no", "ok", "never mind"."""
    return _NOTHING_MORE.search(text) is not None


def wants_out(text: str) -> bool:
    """Whether the message, as a reply, gives up what was begun: the whole of it, so that "cancel my order" does not."""
    return _WANTS_OUT.search(text) is not None


def day(text: str, today: date) -> date | None:
    """The day that is meant: today, tomorrow, or the next such weekday, today included."""
    words = set(re.findall(r"[a-z]+", text.lower()))
    if "tomorrow" in words:
        return today + timedelta(days=1)
    if words & {"today", "now", "tonight"}:
        return today
    for number, name in enumerate(_WEEKDAYS):
        if words & {name, name + "s"}:
            return today + timedelta(days=(number - today.weekday()) % 7)
    return None


def town(text: str, towns: Sequence[str]) -> str | None:
    """The town of these that is named."""
    folded = text.casefold()
    named = [known for known in towns if re.search(rf"\b{re.escape(known.casefold())}\b", folded)]
    return max(named, key=len) if named else None


def words(text: str) -> list[str]:
    """The words to search for: in lower case, numbers and words without meaning left out, each once."""
    found = re.findall(r"[a-z][a-z'-]+", text.lower())
    return list(dict.fromkeys(word for word in found if not _EMPTY_WORD.fullmatch(word)))


def quoted(text: str) -> str:
    """The message as it is repeated to the user: one line, at most 60 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59].rstrip()}…"


def choice(text: str, options: Sequence[str]) -> int | None:
    """Which of the options is meant: by its number, by "the second", or by words that only one of them has."""
    folded = text.lower()
    number = re.fullmatch(r"\W*(?:number|no\.?|item|#)?\s*(\d)\W*", folded)
    if number:
        return int(number[1]) - 1 if 1 <= int(number[1]) <= len(options) else None
    for name, place in _ORDINALS.items():
        if re.search(rf"\b{name}\b", folded) and -len(options) <= place < len(options):
            return place % len(options)
    return _by_words(set(words(text)), options)


def _by_words(said: set[str], options: Sequence[str]) -> int | None:
    hits = [len(stems(said) & stems(words(option))) for option in options]
    best = max(hits, default=0)
    return hits.index(best) if best and hits.count(best) == 1 else None


def stems(said: Iterable[str]) -> set[str]:
    """The words without the `s` of a plural."""
    return {_stem(word) for word in said}


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") else word


def reason(text: str) -> str | None:
    """Why an item goes back: `broken`, `wrong item`, `not as described`, `changed mind`; None when it is none of these."""
    for name, pattern in _REASONS.items():
        if pattern.search(text):
            return name
    return None


_REASONS = {
    "wrong item": re.compile(r"(?i)\bwrong (?:item|one|colou?r|size|product)|\bnot what i ordered|\bsomething else\b"),
    "not as described": re.compile(r"(?i)\bnot (?:as|like) (?:described|in|on|the)|\blooks different|\bexpected\b"),
    "broken": re.compile(
        r"(?i)\b(?:broken|broke|crack(?:ed|s)?|damaged?|defect(?:ive)?|faulty|leak(?:s|ing|ed)?|dead|scratch(?:ed|es)?"
        r"|(?:does ?n[o']t|stopped|not) work(?:ing)?)\b"
    ),
    "changed mind": re.compile(
        r"(?i)\b(?:chang(?:ed|e) my mind|(?:don'?t|do not|didn'?t) (?:need|want|like)|too (?:big|small|loud|heavy|expensive)"
        r"|no longer|by mistake|twice|duplicate)\b"
    ),
}
