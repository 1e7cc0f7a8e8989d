"""Extracts phrases from agents' cards, to be compared with messages."""

import re
from collections.abc import Collection, Iterator

from turnwise.facts.cards import AgentCard
from turnwise.facts.tree import AgentTree
from turnwise.matching.match import Phrase, PhraseKind
from turnwise.matching.normalize import legible
from turnwise.matching.sentences import split_sentences

PHRASE_CHARACTERS = 2_000
"""Maximum number of characters read from one text; encoders read less."""

_CAPABILITIES = 16
_LONG_WORDS = 8
_FEWEST_WORDS, _MOST_WORDS = 2, 40

_WORD_PARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")
_MARKUP = re.compile(r"(?m)^[ \t]*(?:#+|[-*•–>]|\d+[.)])[ \t]+|[*`_]{2,}|`")
_SENTENCE = re.compile(r"(?<=[.!?;:。！？])\s+|[\r\n]+|[。！？]")
_CLAUSE = re.compile(r"\s*[,、，;/]\s*(?:and|or)?\s*|\s+(?:and|or)\s+", re.IGNORECASE)
# Sentences about things an agent does NOT do must not attract messages.
_EXCLUDING = re.compile(
    r"\b(?:not|never|cannot|\w+n['’]t|except|excluding|without|unless|other than|rather than|instead of)\b", re.IGNORECASE
)
_EMPTY_NAMES = frozenset({"agent", "assistant", "bot", "handler", "helper", "service"})


def phrases_of(tree: AgentTree, default: str | None = None) -> tuple[Phrase, ...]:
    """Returns the phrases of all agents, ineligible ones included, in the tree's order.

    An agent's phrases come from its examples, its skills (names, descriptions, examples), its description and its name. The
    description is used whole and split into capabilities. The default agent and supervisors contribute examples only: a
    description like "routes every request" would attract every request. Texts are in `legible` form, once per agent.

    Args:
        tree: The agents.
        default: The default agent; None = the root.
    """
    examples_only = by_examples_alone(tree, default)
    return tuple(phrase for card in tree for phrase in _deduplicated(_phrases(card, card.name in examples_only)))


def by_examples_alone(tree: AgentTree, default: str | None = None) -> frozenset[str]:
    """Returns the agents of which only examples count: the default agent (None = the root) and non-composite supervisors."""
    supervisors = (card.name for card in tree if not card.is_composite and tree.children(card.name))
    return frozenset((default if default is not None and default in tree else tree.root, *supervisors))


def words_of(name: str) -> str:
    """Returns an agent's or skill's name as words: `track_myOrder2-agent` gives `track my order2`."""
    words = [part for part in _WORD_PARTS.split(name) if part]
    informative = [word for word in words if word.casefold() not in _EMPTY_NAMES and not word.isdigit()]
    return " ".join(word if word.isupper() else word.lower() for word in informative or words)


def capabilities_of(description: str) -> list[str]:
    """Splits a description into at most 16 short phrases; empty when the description is already short.

    The phrases are sentences and the parts of enumerations. Sentences about limits ("does not …") are left out.
    """
    if len(description.split()) < _LONG_WORDS and len(split_sentences(_SENTENCE, description.strip())) < 2:
        return []
    phrases: dict[str, None] = {}
    for sentence in split_sentences(_SENTENCE, _MARKUP.sub("", description)):
        if not sentence or _EXCLUDING.search(sentence):
            continue
        parts = [sentence, *_CLAUSE.split(sentence)] if _CLAUSE.search(sentence) else [sentence]
        for part in parts:
            plain = part.strip(" .:;,!-–\t")
            if _FEWEST_WORDS <= len(plain.split()) <= _MOST_WORDS or (plain and not plain.isascii()):
                phrases.setdefault(plain)
    return list(phrases)[:_CAPABILITIES]


def _phrases(card: AgentCard, examples_only: bool) -> Iterator[Phrase]:
    """Yields all phrases of a card, the most informative kind first."""
    for text in card.examples:
        yield Phrase(card.name, text)
    for skill in card.skills:
        for text in skill.examples:
            yield Phrase(card.name, text, skill=skill.name)
    if examples_only:
        return
    yield Phrase(card.name, words_of(card.name), "name")
    for skill in card.skills:
        yield Phrase(card.name, words_of(skill.name), "capability", skill.name)
        yield from _described(card.name, skill.description, "capability", skill.name)
    yield from _described(card.name, card.description, "description")


def _described(label: str, description: str, kind: PhraseKind, skill: str = "") -> Iterator[Phrase]:
    description = description[:PHRASE_CHARACTERS]
    yield Phrase(label, _MARKUP.sub("", description), kind, skill)
    for text in capabilities_of(description):
        yield Phrase(label, text, "capability", skill)


def _deduplicated(phrases: Collection[Phrase] | Iterator[Phrase]) -> Iterator[Phrase]:
    """Yields the phrases in legible form, without empty ones and case-insensitive duplicates."""
    seen = set()
    for phrase in phrases:
        text = legible(phrase.text[:PHRASE_CHARACTERS])
        key = text.casefold()
        if text and key not in seen:
            seen.add(key)
            yield phrase._replace(text=text)
