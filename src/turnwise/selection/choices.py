"""What a clarifying question offers, and which of it the user means: by number or by name, without a model (behaviour E5)."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from pydantic import JsonValue

from turnwise.facts.tree import AgentTree
from turnwise.matching.normalize import normalize
from turnwise.matching.sentences import split_sentences

DESCRIPTION_CHARACTERS = 100
_PREFIX_CHARACTERS = 3
_READ_CHARACTERS = 500

_SENTENCE = re.compile(r"(?<=[.!?])\s")
_TOKEN = re.compile(r"[^\W_]+")
_KEYCAP = "\u20e3"
_ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th)")
_NUMBERS: dict[str, int] = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_ORDINALS: dict[str, int] = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "former": 1, "top": 1, "last": -1, "latter": -1, "bottom": -1,
}  # fmt: skip
# Words that stand around a choice and choose nothing.
_AROUND = frozenset({
    "a", "about", "agent", "and", "answer", "choice", "choose", "d", "department", "desk", "for", "from", "go", "going",
    "guess", "hi", "i", "id", "is", "it", "item", "let", "lets", "like", "ll", "m", "me", "mean", "meant", "my", "ok",
    "okay", "of", "option", "pick", "please", "pls", "rather", "s", "select", "take", "talk", "team", "thank", "thanks",
    "that", "the", "then", "there", "think", "this", "to", "up", "want", "well", "with", "would", "yes", "yeah", "yep",
    "you", "number", "no", "nr", "one", "ones",
})  # fmt: skip
_DECLINED = re.compile(
    r"(?:no,? )?(?:neither|none|nothing|nope|no|not (?:any|either)|something else|(?:any)?other|another|nobody)"
    r"(?: one| thing)?(?: of (?:them|these|those|that|it|the above|both|the two|your (?:choices|options)))?"
    r"(?:,? (?:please|thanks|thank you|really|sorry))*[.!]?"
)
_DECLINED_AND_MORE = re.compile(
    r"(?:no,? )?(?:neither|none)(?: of (?:them|these|those|the above|both|the two))?\s*[,.;:!–—-]\s*\S"
)


class Choice(NamedTuple):
    """An agent as it is offered: its name, how it is shown, and what it is for, in one sentence (may be empty)."""

    agent: str
    label: str
    description: str

    def as_data(self) -> dict[str, JsonValue]:
        return {"agent": self.agent, "label": self.label, "description": self.description}


class Answer(NamedTuple):
    """What the user said to the choices. place: the chosen one, from 0; `declined`: none of them, and nothing else;
    `declined_for_more`: none of them, but what was said goes on.
    """

    kind: Literal["chosen", "declined", "declined_for_more"]
    place: int = 0
    how: str = ""


def choices_of(tree: AgentTree, agents: Iterable[str]) -> tuple[Choice, ...]:
    """The agents as they are offered, in their order; who is no longer in the tree has a name and no more."""
    return tuple(
        Choice(name, _label(name), _first_sentence(tree.card(name).description) if name in tree else "") for name in agents
    )


def asked(choices: Sequence[Choice], lead: str) -> str:
    """The question: the lead, and a numbered line for each choice."""
    lines = (f"{number}. {each.label}{_after(each.description)}" for number, each in enumerate(choices, 1))
    return "\n".join((lead, *lines))


def read_answer(text: str, choices: Sequence[Choice]) -> Answer | None:
    """Which choice the text names, by its number or name; None when it says something else.

    "2", "number two", "the second one please", "the last"; a name, or words or beginnings of words that only one of the
    choices has, with polite words around. A longer message is never read as a number: "order 2 kettles" is none.
    """
    plain = normalize(text[:_READ_CHARACTERS].replace(_KEYCAP, ""), fold=True)
    if _DECLINED.fullmatch(plain):
        return Answer("declined", how="neither of them")
    if _DECLINED_AND_MORE.match(plain):
        return Answer("declined_for_more", how="neither of them, and more")
    words = _TOKEN.findall(plain.replace("'", " ").replace("’", " "))
    place = _by_number(words, len(choices))
    if place is not None:
        return Answer("chosen", place, f"number {place + 1}")
    place = _by_name(words, choices)
    return Answer("chosen", place, "its name") if place is not None else None


def _by_number(words: list[str], count: int) -> int | None:
    said = [word for word in words if word not in _AROUND]
    if words and words[-1] == "one" and set(words[:-1]) <= {"option", "number", "choice"}:
        return 0
    if len(said) != 1:
        return None
    number = _number(said[0])
    if number is None:
        return None
    place = count - 1 if number == -1 else number - 1
    return place if 0 <= place < count else None


def _number(word: str) -> int | None:
    if word.isdecimal() and len(word) <= 2:
        return int(word) or None
    ordinal = _ORDINAL.fullmatch(word)
    if ordinal:
        return int(ordinal[1]) or None
    return _NUMBERS.get(word) or _ORDINALS.get(word)


def _by_name(words: list[str], choices: Sequence[Choice]) -> int | None:
    """The one choice that all the words fit, after those around it are left out."""
    named = [set(_TOKEN.findall(normalize(each.label, fold=True))) for each in choices]
    every = set[str]().union(*named)
    said = [word for word in words if word in every or word not in _AROUND]
    said, denied = _denied(said)
    if not said and not denied:
        return None
    fitting = [
        place
        for place, name in enumerate(named)
        if all(_fits(word, name) for word in said) and not any(_fits(word, name) for word in denied)
    ]
    # Who denies something that was not offered has said nothing about the choices.
    if denied and not any(_fits(word, name) for word in denied for name in named):
        return None
    if len(fitting) > 1 and said:
        exact = [place for place in fitting if set(said) == named[place]]
        fitting = exact or fitting
    return fitting[0] if len(fitting) == 1 else None


def _denied(words: list[str]) -> tuple[list[str], list[str]]:
    """The words, and those of them that follow a "not"."""
    if "not" not in words:
        return words, []
    at = words.index("not")
    return words[:at], words[at + 1 : at + 2]


def _fits(word: str, name: set[str]) -> bool:
    return any(word == part or _stem(word) == _stem(part) for part in name) or (
        len(word) >= _PREFIX_CHARACTERS and any(part.startswith(word) for part in name)
    )


def _stem(word: str) -> str:
    return word[:-1] if len(word) > _PREFIX_CHARACTERS and word.endswith("s") else word


def _label(name: str) -> str:
    """`password_reset` as `Password reset`; a name that is written as words stays as it is."""
    words = re.sub(r"[_\-./]+", " ", name).strip() or name
    return words[0].upper() + words[1:] if words == words.lower() else words


def _first_sentence(text: str) -> str:
    plain = normalize(text)
    first = split_sentences(_SENTENCE, plain)[0].rstrip(".")
    return first if len(first) <= DESCRIPTION_CHARACTERS else first[: DESCRIPTION_CHARACTERS - 1].rstrip() + "…"


def _after(description: str) -> str:
    return f" – {description}" if description else ""
