"""Extracts phrases from agents' cards, to be compared with messages."""

import hashlib
import re
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import NamedTuple

from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.matching.match import GroupedPhrases, Phrase, PhraseKind
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

    An agent's phrases come from its examples, those that it learned, its skills (names, descriptions, examples), its
    description and its name. The description is used whole and split into capabilities. The default agent and supervisors
    contribute examples only: a description like "routes every request" would attract every request. Texts are in `legible`
    form, once per agent.

    Args:
        tree: The agents.
        default: The default agent; None = the root.
    """
    return TreePhrases(tree, default).all


class AgentPhrases(NamedTuple):
    """The phrases of one agent."""

    card: AgentCard
    examples_only: bool
    phrases: tuple[Phrase, ...]
    digest: bytes
    """A hash of the phrases."""

    @property
    def texts(self) -> Iterator[str]:
        """The agent's name and its phrases, as texts of known words."""
        yield words_of(self.card.name)
        yield from (phrase.text for phrase in self.phrases)


class TreePhrases:
    """The phrases of all agents of a tree, as `phrases_of`. Immutable.

    Args:
        tree: The agents.
        default: The default agent; None = the root.
        before: The phrases of an earlier tree. Those of cards that did not change are shared.
    """

    def __init__(self, tree: AgentTree, default: str | None = None, before: "TreePhrases | None" = None) -> None:
        examples_only = by_examples_alone(tree, default)
        known = before.by_agent if before is not None else {}
        self.by_agent: dict[str, AgentPhrases] = {
            card.name: each
            if (each := known.get(card.name)) is not None
            and each.card is card
            and each.examples_only == (card.name in examples_only)
            else _of_agent(card, card.name in examples_only, each)
            for card in tree
        }
        self.all = GroupedPhrases(each.phrases for each in self.by_agent.values())

    @cached_property
    def digest(self) -> bytes:
        """A hash of all phrases in order."""
        return hashlib.sha256(b"".join(each.digest for each in self.by_agent.values())).digest()

    def changed_from(self, before: "TreePhrases") -> tuple[list[str], list[str]]:
        """Returns the texts of changed agents: those that are gone, and those that are new."""
        gone = [each for name, each in before.by_agent.items() if self.by_agent.get(name) is not each]
        new = [each for name, each in self.by_agent.items() if before.by_agent.get(name) is not each]
        return [text for each in gone for text in each.texts], [text for each in new for text in each.texts]


def _of_agent(card: AgentCard, examples_only: bool, known: AgentPhrases | None) -> AgentPhrases:
    """Returns the phrases of one card; those known before if the card is the same."""
    if known is not None and known.examples_only == examples_only and known.card == card:
        return known
    phrases = tuple(_deduplicated(_phrases(card, examples_only)))
    digest = hashlib.sha256()
    for phrase in phrases:
        texts = (phrase.label, phrase.text, phrase.kind, phrase.skill)
        digest.update("\0".join(texts).encode("utf-8", "surrogatepass") + b"\1")
    return AgentPhrases(card, examples_only, phrases, digest.digest())


def by_examples_alone(tree: AgentTree, default: str | None = None) -> frozenset[str]:
    """Returns the agents of which only examples count: the default agent (None = the root) and non-composite supervisors."""
    parents = {card.parent for card in tree if card.parent is not None}
    supervisors = (name for name in parents if not tree.card(name).is_composite)
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
    for learned in card.learned:
        yield Phrase(card.name, learned.text, private=True)
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
            yield phrase if text == phrase.text else phrase._replace(text=text)
