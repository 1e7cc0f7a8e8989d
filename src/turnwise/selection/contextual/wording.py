"""The wording of a message and of the reply before it, for the contextual decision. Pure.

It gives features, splits a message into clauses or requests, and finds the kind of an agent's last question. The questions'
words are English only.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from turnwise.facts.sessions import RECENT_CHARACTERS
from turnwise.matching.normalize import normalize
from turnwise.matching.sentences import ends_sentence
from turnwise.matching.text_features import READ_CHARACTERS, TextFeatures, text_features
from turnwise.selection.phrases import words_of

_CACHE_SIZE = 4_096
_MAX_TOKENS = 400
_MAX_WORD = 60
_END_OF_REPLY = RECENT_CHARACTERS

_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*")

_RESUMES = re.compile(
    r"\bback (?:to|on|with)\b|\breturn(?:ing)? to\b|\bas i (?:was saying|said|mentioned)\b|\bwhere (?:were|was) (?:we|i)\b"
    r"|\bearlier\b|\bprevious(?:ly)?\b|\bagain\b|\bresume\b|\bcontinue\b|\banyways?\b|\bbefore\b|\bpick up where\b"
    r"|\b(?:first|original|other) (?:thing|question|topic|issue|request)\b"
)
_CALLS = re.compile(
    r"\b(?:talk|speak|chat|connect|transfer|switch|hand|put|pass|route|redirect|forward|move|direct|bring|send|take|return"
    r"|go|back)(?: (?:me|us|this|it|my call|back|over|through|on|along))* (?:to|with)\b|\bget me\b|\bput me through\b"
    r"|\bput \w+ on\b"
)
_CALL_PHRASES = re.compile(
    r"\b(?:(?:talk|speak|chat) (?:to|with)"
    r"|(?:connect|transfer|switch|hand|put|pass|route|redirect|forward|direct|bring|send|take)"
    r" (?:me|us|my call)(?: (?:back|over|through|on|along))*(?: (?:to|with))?)\b"
)
_SOMEBODY = re.compile(r"\b(?:department|team|agent|desk|representative|assistant|specialist|operator|bot)\b")
_OFFERS = re.compile(
    r"\b(?:(?:any|some)thing else|any(?:thing)? (?:more|other|further)|what else|else (?:i|we) can"
    r"|(?:further|more|other) (?:help|assistance|requests?|questions?)"
    r"|(?:help|assist) you (?:further|with (?:anything|something)))\b"
)
_DONE = re.compile(
    r"\b(?:confirmed|booked|reserved|scheduled|completed?|done|success(?:ful|fully)?|purchased|added|sent|cancel+ed|set up"
    r"|updated|placed|submitted|processed|transferred|changed|saved|created|you(?:'re| are) all set|enjoy"
    r"|have a (?:good|great|nice)|you(?:'re| are) welcome|my pleasure|no problem|glad)\b"
)
_REFUSES = re.compile(
    r"\b(?:sorry|apologi[sz]e|unfortunately|can(?:'t|not| not) help|unable to|not able to|only help with|couldn'?t|could not"
    r"|do(?:n'?t| not) (?:know|understand|handle)|didn'?t (?:get|catch|understand))\b"
)

_DISCLAIMS = re.compile(
    r"\b(?:not (?:some|any)?(?:thing|what) (?:i|we) (?:handle|do|cover|deal with|can)"
    r"|(?:i|we)(?:'m| am|'re| are)? (?:don'?t|do not|cannot|can'?t|can not|not able to) (?:handle|deal with|cover|help|take)"
    r"|(?:i|we) (?:can )?only (?:help|do|handle|deal|look after|take care|take)|(?:outside|beyond) (?:of )?(?:my|our|what)"
    r"|not (?:my|our) (?:area|job|department|desk)|(?:another|different|other|right) (?:team|department|agent|desk|colleague)"
    r"|(?:transfer|pass|hand|connect|put)(?:ring|ing|ting)? you (?:over|on|through|to|with))\b"
)
_COMPLAINS = re.compile(
    r"\b(?:(?:that|this|it)(?:'s| is| was)? ?(?:not|isn'?t|wasn'?t) (?:what|the thing|my question)|not what i"
    r"|i (?:didn'?t|did not) (?:ask|say|mean)|i (?:asked|meant|was asking|was talking|was (?:still )?on)"
    r"|wrong (?:thing|department|person|agent|team|desk)|you (?:misunderst[oa]nd|misunderstood)|got (?:that|it|me) wrong"
    r"|(?:answer|read) (?:my|the) (?:question|message)|you(?:'re| are) not (?:listening|answering))\b"
)
_AMOUNT = re.compile(r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|dozen|couple|only|just (?:me|us))\b")
_PLACE = re.compile(r"\b(?:in|at|to|from|near|around|by)\b")

_STEM_CACHE_SIZE = 16_384
_MAX_OWNERS = 20
_EMPTY = frozenset(("team", "department", "desk", "specialist", "the", "of", "and", "for", "a", "an", "to", "my", "in", "on"))

YES_OR_NO = "yesno"
_QUESTION_SENTENCES = re.compile(r"[^.!?\n]+[.!?]?")
_QUESTION_WORDS = (
    (
        YES_OR_NO,
        r"\A(?:ok|okay|sure|great|and|so|then|but|well|also|right|now)?,? ?"
        r"(?:do|does|did|is|are|was|would|shall|should|can|could|will|have|has|may|want|anything|any other)\b",
    ),
    ("when", r"\b(?:when|(?:what|which) (?:time|day|date)|how soon|(?:time|date) (?:for|of|would)?)\b"),
    ("count", r"\b(?:how (?:many|much|long|old|big)|number of|what (?:number|amount|quantity|size))\b"),
    ("where", r"\b(?:where|(?:what|which) (?:city|area|place|location|station|country)|location|address)\b"),
    ("who", r"\b(?:who|whose|what name|your name)\b"),
    ("which", r"\b(?:which|what|what's|how|why)\b"),
    (YES_OR_NO, r"\b(?:confirm|correct|right|okay|ok|sound|work for you)\b"),
)
_QUESTION_KINDS = tuple((kind, re.compile(words)) for kind, words in _QUESTION_WORDS)

SPLIT_CHARACTERS = 600
"""Maximum length of a message that is split into clauses or requests; longer ones tend to be stories."""
MAX_CLAUSES = 3
"""Maximum number of clauses that are read; of more, the first and the last two."""
_CLAUSE_CACHE_SIZE = 1_024
_CLAUSE_WORDS = 2
_CLAUSE_ENDS = re.compile(
    r"(?<=[.!?;:])\s+|\n+|\s[-–—]\s|,\s+(?=(?:and|but|so|also|then|can|could|would|i|please)\b)", re.IGNORECASE
)

MAX_PARTS = 4
"""Maximum number of parts that are read beside an answer."""

_REQUEST_WORDS = 3
_REQUEST_SENTENCES = re.compile(r"(?<=[.!?;])\s+(?:(?:then|and|also|plus|oh|but)[,\s]+)*", re.IGNORECASE)
# They read normalized text, which has no two spaces in a row.
_JOINTS = re.compile(r" ?,? (?:and|plus|also|then)(?: (?:also|then|please|after that|in addition))* | ?; ?", re.IGNORECASE)
_TURNS = re.compile(
    r", (?:(?:but|so) )?(?=(?:until |since )?(?:what|when|where|who|whom|why|which|how|can|could|would|will|do|does|did|is"
    r"|are|may|please|i need|i want|i'd)\b)|,? but (?=\w)",
    re.IGNORECASE,
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ENGLISH = _words(
    "a an the i i'm i'd i've me my mine you your yours we our it it's its is are was were be been am do does did don't "
    "doesn't have has had can can't could would will should what what's where where's when why who how which that that's "
    "this these those there to of on at for from with by about as into and or but if not yes any some all more please "
    "thanks thank hi hello hey ok okay need want like get help know show tell find give let make go out up just now then "
    "her him them they he she much many us sure good great so too again back still im i'll dont cant "
)


@dataclass(frozen=True, slots=True)
class MessageWording:
    """Wording features of a message."""

    features: TextFeatures
    tokens: tuple[str, ...]
    """Case-folded words in order, at most 400, without phrases like "transfer me to", which name no agent."""
    resumes: bool
    """Has words for returning to an earlier topic."""
    calls: bool
    """Has words that request a person or a team."""
    strange: bool
    """Has four or more words, and no common English one."""
    unreadable: bool
    """Has no Latin letters or digits that could form a word, or mostly letters of other scripts."""
    empty: bool
    """Names nothing: only function words, openings and numbers."""
    complains: bool
    """Says that the answer was not what it asked for."""
    amount: bool
    """Has a number, in digits or as a word."""
    place: bool
    """Has a word that often stands before a place."""


@dataclass(frozen=True, slots=True)
class ReplyWording:
    """How a reply ended: with a question, an offer of more help, a report of completion, or a refusal."""

    anything: bool = False
    question: bool = False
    offers: bool = False
    done: bool = False
    refuses: bool = False
    disclaims: bool = False
    """Says that the matter is not the agent's, or hands the user over."""
    kind: str = ""
    """The kind of the last question, from `question_kind`; empty without a question."""


@lru_cache(_CACHE_SIZE)
def read_message(text: str) -> MessageWording:
    """Returns what the words of a message tell about the conversation (complains, takes up, is empty), from its first 2,000
    characters."""
    folded = normalize(text[:READ_CHARACTERS], fold=True).replace("’", "'")
    words = _TOKEN.findall(folded)
    all_words = words[:_MAX_TOKENS]
    tokens = tuple(_TOKEN.findall(_CALL_PHRASES.sub(" ", folded))[:_MAX_TOKENS])
    found = text_features(text)
    return MessageWording(
        features=found,
        tokens=tokens,
        resumes=bool(_RESUMES.search(folded)),
        calls=found.somebody or bool(_CALLS.search(folded) or _SOMEBODY.search(folded)),
        strange=len(all_words) >= 4 and _ENGLISH.isdisjoint(all_words),
        unreadable=found.other_script > 0.5 or not any(_is_readable(token) for token in all_words),
        complains=bool(_COMPLAINS.search(folded)),
        amount=found.numbers > 0 or found.money or bool(_AMOUNT.search(folded)),
        place=bool(_PLACE.search(folded)),
        empty=len(text) <= READ_CHARACTERS and not found.emoji and found.content <= sum(map(str.isdigit, words)),
    )


@lru_cache(_CACHE_SIZE)
def read_reply(reply: str) -> ReplyWording:
    """Returns how the reply ended, from its last 300 characters."""
    folded = normalize(reply[-_END_OF_REPLY:], fold=True).replace("’", "'")
    return ReplyWording(
        anything=bool(folded),
        question="?" in folded[-60:],
        offers=bool(_OFFERS.search(folded)),
        done=bool(_DONE.search(folded)),
        refuses=bool(_REFUSES.search(folded)),
        disclaims=bool(_DISCLAIMS.search(folded)),
        kind=question_kind(folded),
    )


def answer_fit(said: ReplyWording, words: MessageWording) -> float:
    """Returns how well the message's form answers the question, -1 to 1; 0 without a question."""
    seen = words.features
    asks = seen.question_word or seen.question_mark
    decides = seen.opens_yes or seen.opens_no or (seen.opens_ok and seen.rest <= 6)
    if said.kind == YES_OR_NO:
        return 1.0 if decides else -0.5 if asks else 0.0
    if not said.kind:
        return 0.0
    given = {
        "when": seen.date or seen.time,
        "count": words.amount,
        "where": words.place or (seen.rest <= 4 and seen.content >= 1),
        "who": seen.rest <= 5 and seen.content >= 1,
        "which": seen.content >= 1,
    }[said.kind]
    return 0.0 if asks else (1.0 if given else -0.5 if decides else 0.0)


def _is_readable(token: str) -> bool:
    return len(token) <= _MAX_WORD and any(c.isascii() or c < "\u0250" for c in token)


class AgentNames:
    """Finds words of agents' names in messages. Immutable."""

    def __init__(self, names: Iterable[str]) -> None:
        self._words: dict[str, tuple[str, ...]] = {}
        self._owners: dict[str, list[str]] = defaultdict(list)
        for name in names:
            words = [word for word in words_of(name).split() if len(word) >= 2] or [name]
            informative = [word for word in words if word.casefold() not in _EMPTY] or words
            self._words[name] = tuple(dict.fromkeys(map(stem, informative)))
            for word in self._words[name]:
                self._owners[word].append(name)

    def named(self, tokens: Sequence[str]) -> Mapping[str, float]:
        """Returns the share of each agent's name that occurs among the tokens, 0 to 1; agents without any are left out.

        A word in several names counts divided by their number. A word in more than 20 names does not count.
        """
        found: dict[str, float] = defaultdict(float)
        for word in dict.fromkeys(map(stem, tokens)):
            owners = self._owners.get(word, ())
            if len(owners) <= _MAX_OWNERS:
                for name in owners:
                    found[name] += 1.0 / len(self._words[name]) / len(owners)
        return found


@lru_cache(_STEM_CACHE_SIZE)
def stem(word: str) -> str:
    """Returns the word, case-folded, without common English endings. Short words stay whole."""
    word = word.casefold().removesuffix("'s")
    for ending, least in (("ies", 6), ("ings", 8), ("ing", 7), ("ed", 6), ("es", 6), ("s", 4), ("e", 5)):
        if word.endswith(ending) and len(word) >= least:
            return word.removesuffix(ending) + ("y" if ending == "ies" else "")
    return word


def last_question(text: str) -> str:
    """Returns the text's last sentence with a question mark, or else its last sentence."""
    sentences = [each.strip() for each in _QUESTION_SENTENCES.findall(text) if each.strip()]
    return next((each for each in reversed(sentences) if each.endswith("?")), sentences[-1] if sentences else "")


def question_kind(folded: str) -> str:
    """Returns what the last question of a case-folded text asks for: yesno, when, count, where, who, which, or nothing.

    A last sentence with a question's words counts without the mark.
    """
    asked = last_question(folded)
    return next((kind for kind, words in _QUESTION_KINDS if words.search(asked)), "")


@lru_cache(_CLAUSE_CACHE_SIZE)
def clauses_of(text: str) -> tuple[str, ...]:
    """Returns the clauses with content, in order; empty when the message has a single clause."""
    if len(text) > SPLIT_CHARACTERS:
        return ()
    plain = normalize(text)
    parts, start = [], 0
    for end in _CLAUSE_ENDS.finditer(plain):
        if ends_sentence(plain, end.start()):
            parts.append(plain[start : end.start()].strip())
            start = end.end()
    parts.append(plain[start:].strip())
    found = [part for part in parts if part]
    if len(found) < 2:
        return ()
    telling = [part for part in found if text_features(part).words >= _CLAUSE_WORDS and text_features(part).content >= 1]
    return tuple(telling if len(telling) <= MAX_CLAUSES else (telling[0], *telling[-(MAX_CLAUSES - 1) :]))


class Part(NamedTuple):
    """A part of a message."""

    text: str
    asks: bool
    """Has a request's words."""


def split_requests(text: str) -> tuple[str, str] | None:
    """Splits a message into two requests; None when it does not seem to contain two.

    It splits at a sentence's end or a conjunction, if both sides contain a request or enough content.
    """
    for first, second in _splits(text):
        if _tells(first) and _tells(second):
            return first, second
    return None


def parts_beside_answer(text: str) -> tuple[Part, ...]:
    """Returns the ends of a message that may be requests beside an answer before them, the longest first.

    Empty when the message takes back what was asked ("never mind"): then nothing is answered.
    """
    if text_features(text).never_mind:
        return ()
    ends = dict.fromkeys(second for first, second in _splits(text) if first and _tells(second))
    return tuple(Part(end, _asks(end)) for end in sorted(ends, key=len, reverse=True)[:MAX_PARTS])


def _splits(text: str) -> Iterator[tuple[str, str]]:
    """Yields both sides of each place where a message may be split: sentences' ends, conjunctions, and turns such as "but"."""
    if len(text) > SPLIT_CHARACTERS:
        return
    plain = normalize(text)
    ends = (each for each in _REQUEST_SENTENCES.finditer(plain) if ends_sentence(plain, each.start()))
    for joint in (*ends, *_JOINTS.finditer(plain), *_TURNS.finditer(plain)):
        yield plain[: joint.start()].strip(), plain[joint.end() :].strip()


def _tells(part: str) -> bool:
    found = text_features(part)
    return found.words >= _REQUEST_WORDS and found.content >= (1 if _has_request(part) else 2)


def _asks(part: str) -> bool:
    return _has_request(part) or text_features(part).question_mark


def _has_request(part: str) -> bool:
    found = text_features(part)
    return found.asks or found.imperative or found.question_word
