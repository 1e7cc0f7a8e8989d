"""How a message, and the reply before it, are worded: what a stay-or-leave decision can read from words alone."""

import re
from functools import lru_cache
from typing import NamedTuple

from turnwise.facts.sessions import RECENT_CHARACTERS
from turnwise.matching.clues import READ_CHARACTERS, Clues, clues
from turnwise.matching.normalize import normalize

_REMEMBERED = 4_096
_TOKENS = 400
_LONGEST = 60
_END_OF_REPLY = RECENT_CHARACTERS

_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


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
_CALLING = re.compile(
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
_ENGLISH = _words(
    "a an the i i'm i'd i've me my mine you your yours we our it it's its is are was were be been am do does did don't "
    "doesn't have has had can can't could would will should what what's where where's when why who how which that that's "
    "this these those there to of on at for from with by about as into and or but if not yes any some all more please "
    "thanks thank hi hello hey ok okay need want like get help know show tell find give let make go out up just now then "
    "her him them they he she much many us sure good great so too again back still im i'll dont cant "
)


class Wording(NamedTuple):
    """A message's words. `tokens` are folded, in order, at most 400, without the verbs of asking for somebody ("transfer me
    to"), which speak of nobody.

    resumes: words of taking something up again. calls: words of asking for somebody. strange: four words or more, and none
    of English's commonest. unreadable: nothing of Latin letters or digits that could be a word, or mostly letters of other
    scripts. empty: nothing is named, all are small words, openings and numbers.
    """

    clues: Clues
    tokens: tuple[str, ...]
    resumes: bool
    calls: bool
    strange: bool
    unreadable: bool
    empty: bool


class Said(NamedTuple):
    """How the reply before the message ended: with a question, an offer of more help, a report, a refusal."""

    anything: bool = False
    question: bool = False
    offers: bool = False
    done: bool = False
    refuses: bool = False


@lru_cache(_REMEMBERED)
def wording(text: str) -> Wording:
    """What the message's words say; of long ones the first 2,000 characters."""
    folded = normalize(text[:READ_CHARACTERS], fold=True).replace("’", "'")
    words = _TOKEN.findall(folded)
    every = words[:_TOKENS]
    tokens = tuple(_TOKEN.findall(_CALLING.sub(" ", folded))[:_TOKENS])
    found = clues(text)
    return Wording(
        clues=found,
        tokens=tokens,
        resumes=bool(_RESUMES.search(folded)),
        calls=found.somebody or bool(_CALLS.search(folded) or _SOMEBODY.search(folded)),
        strange=len(every) >= 4 and _ENGLISH.isdisjoint(every),
        unreadable=found.other_script > 0.5 or not any(_is_readable(token) for token in every),
        empty=len(text) <= READ_CHARACTERS and not found.emoji and found.content <= sum(map(str.isdigit, words)),
    )


@lru_cache(_REMEMBERED)
def said(reply: str) -> Said:
    """How the reply ended; of long ones the last 300 characters."""
    folded = normalize(reply[-_END_OF_REPLY:], fold=True).replace("’", "'")
    return Said(
        anything=bool(folded),
        question="?" in folded[-60:],
        offers=bool(_OFFERS.search(folded)),
        done=bool(_DONE.search(folded)),
        refuses=bool(_REFUSES.search(folded)),
    )


def _is_readable(token: str) -> bool:
    return len(token) <= _LONGEST and any(c.isascii() or c < "\u0250" for c in token)
