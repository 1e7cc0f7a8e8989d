"""Surface features of a message, independent of its topic (behaviour C2): length, openings, numbers, words that ask."""

import functools
import re
from collections.abc import Iterable
from typing import NamedTuple

from turnwise.matching.normalize import normalize

READ_CHARACTERS = 2_000
"""Maximum number of characters that are read."""


class TextFeatures(NamedTuple):
    """Surface features of one message. Word features are English; other languages have signs, numbers and scripts only."""

    words: int = 0
    """Number of words. In scripts without spaces, two characters count as a word."""
    characters: int = 0
    """Number of characters read."""
    rest: int = 0
    """Number of words after the opening: greeting, yes, no, ok, thanks and their complements."""
    content: int = 0
    """Number of content words after the opening: neither function words nor words that ask."""
    numbers: int = 0
    """Number of words with a digit."""
    question_mark: bool = False
    question_word: bool = False  # opens with what, where, is, do, ...
    exclamation: bool = False
    email: bool = False
    phone: bool = False
    url: bool = False
    date: bool = False
    time: bool = False
    money: bool = False
    order_code: bool = False
    """Contains a word like an order number."""
    address: bool = False
    opens_yes: bool = False
    opens_no: bool = False
    opens_ok: bool = False
    opens_thanks: bool = False
    opens_greeting: bool = False
    thanks: bool = False  # anywhere
    closing: bool = False  # bye, that's all, nothing else
    asks: bool = False  # I need, can you, how do I, ...
    imperative: bool = False  # find, book, show, ... first, after the opening
    also: bool = False
    instead: bool = False
    what_about: bool = False
    back_to: bool = False
    actually: bool = False
    never_mind: bool = False
    somebody: bool = False
    """Requests a person, or to speak to one."""
    refers_back: bool = False  # it, that, them, one, there
    own: bool = False  # my, mine, our
    you: bool = False
    negates: bool = False
    please: bool = False
    shouting: bool = False
    code_like: bool = False
    emoji: bool = False
    latin: float = 1.0
    """Share of Latin letters, 0 to 1; 1 without letters."""
    other_script: float = 0.0
    """Share of other letters, 0 to 1; 0 without letters."""


def text_features(text: str) -> TextFeatures:
    """Returns the surface features of a message, from its first 2,000 characters. Linear time; any text is allowed."""
    return _extract(text[:READ_CHARACTERS])


@functools.lru_cache(256)  # several selectors read the same message
def _extract(raw: str) -> TextFeatures:
    """Computes the features of a text."""
    plain = normalize(raw)[:READ_CHARACTERS].replace("’", "'")
    folded = plain.lower()
    words = _WORD.findall(folded)
    opening, start = _opening(words)
    rest = words[start:]
    present, joined = set(rest), f" {' '.join(rest)} "
    everywhere = joined if not start else f" {' '.join(words)} "
    latin, other, unspaced = _scripts(plain)
    first = rest[0] if rest else ""
    asks = _contains(joined, _ASKING)
    numbers = [word for word in _TOKEN.findall(folded) if _DIGIT.search(word)]
    return TextFeatures(
        words=len(words) + unspaced // 2,
        characters=len(plain),
        rest=len(rest) + unspaced // 2,
        content=sum(word not in _SMALL for word in rest) + unspaced // 2,
        numbers=len(numbers),
        question_mark="?" in plain or "؟" in plain,
        question_word=first in _QUESTION,
        exclamation="!" in plain,
        **_values(folded, present, joined, numbers),
        **{f"opens_{kind}": kind in opening for kind in ("yes", "no", "ok", "thanks", "greeting")},
        thanks="thanks" in opening or not present.isdisjoint(_OPENINGS["thanks"]),
        closing=not _CLOSING_WORDS.isdisjoint(words) or _contains(everywhere, _CLOSING),
        asks=asks,
        imperative=first in _IMPERATIVE or (first in ("please", "just") and len(rest) > 1 and rest[1] in _IMPERATIVE),
        also=not present.isdisjoint(_ALSO) or " as well " in joined or " one more thing " in joined,
        instead=not present.isdisjoint(_INSTEAD),
        what_about=_contains(joined, _WHAT_ABOUT),
        back_to=_contains(joined, _BACK_TO),
        actually=not _ACTUALLY.isdisjoint(words) or " on second thought" in joined,
        never_mind=_contains(everywhere, _NEVER_MIND),
        somebody=_contains(joined.replace(" to you ", " "), _SOMEBODY),
        refers_back=not present.isdisjoint(_REFERRING),
        own=not present.isdisjoint(_OWN),
        you=not present.isdisjoint(_YOU),
        negates=not present.isdisjoint(_NEGATION) or "n't" in folded,
        please="please" in words or "pls" in words,
        shouting=_shouts(plain, len(words)),
        code_like=_is_code(raw),
        emoji=not plain.isascii() and _EMOJI.search(plain) is not None,
        latin=latin,
        other_script=other,
    )


def _opening(words: list[str]) -> tuple[set[str], int]:
    """Returns the kinds of opening ("ok great thanks" has two), and the index where the rest begins."""
    kinds: set[str] = set()
    at = 0
    while at < min(len(words), _OPENING_WORDS):
        pair = _OPENING_OF.get(f"{words[at]} {words[at + 1]}") if at + 1 < len(words) else None
        kind = pair or _OPENING_OF.get(words[at])
        if kind is None and not (kinds and words[at] in _FILLERS):
            break
        if kind:
            kinds.add(kind)
        at += 2 if pair else 1
    return kinds, at


def _values(folded: str, present: set[str], joined: str, numbers: list[str]) -> dict[str, bool]:
    """Returns the kinds of values in the message."""
    phone = bool(numbers) and _phone(folded)
    date = not present.isdisjoint(_DATES) or " next week" in joined
    time = not present.isdisjoint(_TIMES)
    money = bool(_MONEY_SIGN.search(folded)) or not present.isdisjoint(_MONEY)
    code = False
    for word in numbers:
        if _DATE.fullmatch(word):
            date = True
        elif _TIME.fullmatch(word):
            time = True
        elif not phone and _is_order_code(word):
            code = True
    if numbers and not present.isdisjoint(("may", "march", "mar", "sun", "sat")):
        date = True
    return {
        "email": "@" in folded and _EMAIL.search(folded) is not None,
        "phone": phone,
        "url": ("://" in folded or "www." in folded) or ("." in folded and _URL.search(folded) is not None),
        "date": date,
        "time": time,
        "money": money,
        "order_code": code,
        "address": bool(numbers) and _address(joined.split()),
    }


def _phone(folded: str) -> bool:
    for found in _PHONE.findall(folded):
        if 7 <= sum(map(str.isdigit, found)) <= 15 and not _DATE.fullmatch(found.strip()):
            return True
    return False


def _is_order_code(word: str) -> bool:
    digits = sum(map(str.isdigit, word))
    letters = sum(map(str.isalpha, word))
    return digits >= 5 or (digits >= 2 and letters >= 1 and len(word) >= 5) or (digits >= 2 and word.startswith("#"))


def _address(words: list[str]) -> bool:
    """Returns whether a street word follows a number within four words (12 Long Hill Road) or precedes one (…straße 12)."""
    number = -10
    for place, word in enumerate(words):
        if word[0].isdigit():
            number = place
            if place and words[place - 1].endswith(_STREET_ENDS):
                return True
        elif word in _STREETS and place - number <= 4:
            return True
    return False


def _scripts(plain: str) -> tuple[float, float, int]:
    """Returns the shares of Latin and other letters, and the number of letters in scripts without spaces."""
    if plain.isascii():
        return 1.0, 0.0, 0
    latin = other = unspaced = 0
    for char in plain:
        if char.isascii():
            latin += char.isalpha()
        elif char.isalpha():
            if char < "\u0250" or "\u1e00" <= char < "\u1f00":
                latin += 1
            else:
                other += 1
                unspaced += "\u3040" <= char < "\ua000" or "\u0e00" <= char < "\u0f00" or "\u1780" <= char < "\u1800"
    letters = latin + other
    return (latin / letters, other / letters, unspaced) if letters else (1.0, 0.0, 0)


def _shouts(plain: str, words: int) -> bool:
    if plain.islower() or (words < 2 and "!" not in plain):
        return False
    upper = sum(map(str.isupper, plain))
    return upper >= 5 and upper > 0.7 * sum(map(str.isalpha, plain))


def _is_code(raw: str) -> bool:
    if any(sign in raw for sign in _CODE_SIGNS):
        return True
    marks = sum(map(raw.count, "{}[]();=<>"))
    return marks >= 4 and marks > 0.08 * len(raw)


def _contains(joined: str, phrases: Iterable[str]) -> bool:
    return any(phrase in joined for phrase in phrases)


def _spaced(*phrases: str) -> tuple[str, ...]:
    return tuple(f" {phrase} " for listed in phrases for phrase in listed.split("|"))


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_OPENING_WORDS = 12

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_TOKEN = re.compile(r"[#\w][\w:/.\-]*\w|\w")
_DIGIT = re.compile(r"\d")
_EMAIL = re.compile(r"[\w.+\-]{1,64}@[\w\-]{1,63}\.\w")
_URL = re.compile(r"(?<![@\w\-])[\w\-]{2,63}\.(?:com|org|net|io|edu|gov|co|dev|app|de|uk|fr)\b(?!@)")
_PHONE = re.compile(r"\+\d[\d ().\-]{6,18}\d|\(\d{2,5}\)[\d .\-]{5,14}\d|\b\d{2,4}[ .\-]\d{2,4}[ .\-]\d{2,6}\b|\b\d{10,11}\b")
_DATE = re.compile(
    r"\d{1,2}(?:st|nd|rd|th)|\d{1,2}/\d{1,2}(?:/\d{2,4})?|\d{1,2}[.\-]\d{1,2}[.\-]\d{2,4}|\d{4}-\d{2}-\d{2}|(?:19|20)\d\d"
)
_TIME = re.compile(r"\d{1,2}(?::\d{2})?(?:am|pm|a\.m|p\.m|h)|\d{1,2}:\d{2}")
_MONEY_SIGN = re.compile(r"[$€£¥₹]")
_EMOJI = re.compile("[\u2600-\u27bf\U0001f000-\U0001faff]")
_CODE_SIGNS = ("```", "</", "/>", "();", "=>", "Traceback (", "#include", "def ", "SELECT ", "console.log", "print(", "&&")

_OPENINGS = {
    "yes": _set("yes yeah yep yup yea ya sure absolutely definitely certainly correct right exactly indeed affirmative")
    | {"of course", "sounds good", "sounds great", "that's right", "that's correct", "go ahead", "please do", "i do"},
    "no": _set("no nope nah negative incorrect wrong") | {"not really", "not yet", "not now"},
    "ok": _set("ok okay okey k kk alright great perfect cool awesome good nice fine excellent wonderful gotcha understood"
               " lovely super amazing brilliant")
    | {"got it", "i see", "all right", "no problem", "no worries", "fair enough"},
    "thanks": _set("thanks thank thx ty tysm thankyou cheers appreciated grateful"),
    "greeting": _set("hi hello hey hiya heya howdy hallo hola greetings yo sup bonjour hei")
    | {"good morning", "good afternoon", "good evening", "good day", "good night", "what's up"},
}  # fmt: skip
_OPENING_OF = {word: kind for kind, words in _OPENINGS.items() for word in words}
_FILLERS = _set(
    "there you very much so a lot again then well all everyone team sir madam friend oh um uh hmm and but just please that's"
    " it's works guys really ton bunch kindly too man dear buddy folks"
)
_CLOSING_WORDS = _set("bye goodbye byebye cya goodnight farewell")
_CLOSING = _spaced(
    "that's all|that is all|thats all|that's it|that will be all|that'll be all|that would be all|that'd be all",
    "nothing else|nothing more|good night|see you|see ya|talk to you later|talk later|take care|have a good|have a nice",
    "have a great|all i need|all i needed|i'm done|i am done|no more questions|that was all|all set|all good|gotta go",
)
_ASKING = _spaced(
    "i need|i want|i'd like|i would like|i'd love|i would love|i'm looking|i am looking|looking for|i wanna|i gotta",
    "i have to|can you|could you|would you|will you|can i|could i|may i|can we|could we|should i|do i|help me|help with",
    "let me|let's|how do i|how do you|how can i|how to|how much|how many|how long|how far|is there|are there|do you have",
    "do you know|tell me|show me|find me|get me|give me|send me|remind me|what is the|what's the|what are the|where is",
    "where's|where can i|when is|when does|when will|why is|why was|why did|why do|i need to|i want to|i can't|i cannot",
    "i'm trying|i am trying|not working|doesn't work|does not work|didn't work|won't|i lost|i forgot|i wish to",
    "i'm interested in|search for|what is my|what's my|i was wondering|wondering if|is it possible|i have a question",
    "i have a problem|need to|want to|like to",
)
_QUESTION = _set(
    "what what's whats where where's when when's why why's who who's whose which how how's is are am was were do does did"
    " can could will would should may shall has have had isn't aren't don't doesn't can't won't"
)
_IMPERATIVE = _set(
    "find book show get give tell make set send call check cancel change add remove delete play search look schedule"
    " reserve buy order pay transfer open close start stop turn update create list help explain translate convert calculate"
    " compare remind track return refund reset unlock block freeze activate report file write read print install fix connect"
    " put let take move recommend suggest locate share post email text message ping run skip pause resume raise lower"
    " increase decrease enable disable switch rent hire renew upgrade confirm verify describe summarize pull submit apply"
    " need want wake save"
)
_ALSO = _set("also additionally besides furthermore moreover another plus")
_INSTEAD = _set("instead rather")
_WHAT_ABOUT = _spaced("what about|how about|what of|as for|and what if|speaking of|regarding|concerning")
_BACK_TO = _spaced(
    "back to|return to|returning to|go back|going back|get back|as i said|earlier|previously|like before|where were we",
    "continue with",
)
_ACTUALLY = _set("actually wait oops sorry")
_NEVER_MIND = _spaced(
    "never mind|nevermind|forget it|forget about|forget that|scratch that|cancel that|leave it|drop it|stop it"
)
_SOMEBODY = _spaced(
    "talk to|speak to|speak with|talk with|transfer me|connect me|put me through|pass me to|human agent|real human",
    "representative|real person|operator|someone from|somebody from|customer service|live agent",
)
_REFERRING = _set("it its it's that that's this these those them they their there him her his he she one ones same")
_OWN = _set("my mine our ours")
_YOU = _set("you your yours you're you've u ur yourself")
_NEGATION = _set("not no never none nothing nobody neither nor cannot without")
_DATES = _set(
    "today tomorrow yesterday tonight weekend monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu"
    " thur thurs fri january february april june july august september october november december jan feb apr jun jul aug sep"
    " sept oct nov dec christmas easter halloween thanksgiving birthday"
)
_TIMES = _set("noon midnight morning afternoon evening am pm o'clock hour hours minute minutes")
_MONEY = _set("dollar dollars bucks euro euros usd eur gbp pounds cents rupees yen")
_STREETS = _set("street st avenue ave road rd boulevard blvd lane ln drive dr court ct suite apt apartment square highway hwy")
_STREET_ENDS = ("straße", "strasse", "weg", "platz", "gasse")
_SMALL = _set(
    "a an the i i'm i'd i've i'll me my mine we us our you your he she it its it's that that's this these those them they"
    " their there here one ones is are am was were be been being do does did done have has had can could will would should"
    " may might must shall of in on at to for from with by about as and or but if so then than not no yes just only very too"
    " also please what what's which who whom whose where when why how all any some more most much many lot want need like"
    " know think let let's get got give tell show find make go going help thing things something anything nothing else now"
    " well okay ok up out don't can't won't didn't doesn't isn't thanks thank really actually instead don dont cant im ill"
    " ive u ur pls sure right"
)
