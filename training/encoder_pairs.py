"""Pairs of texts for the training of the encoder: of each pair, both texts are meant for the same agent."""

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from contextual_companies import by_agent, read
from contextual_talks import companies, company

CLINC_SHARE = 0.55
"""Share of batches with requests of CLINC150. The others have requests of the project's own companies."""
DOMAINS, COMPANIES = 4, 7
"""How many domains of CLINC150, or how many companies, are in a batch."""
NAMED = 0.3
"""Share of CLINC150's pairs that are a request and the intent's name."""
DESCRIBED, SAMPLED = 0.55, 0.38
"""Shares of the companies' pairs that are a message and a description, or a message and an example. The rest have the name."""
PREFIXED = 0.3
"""Share of descriptions that have the agent's name in front."""
BARE = 0.25
"""Share of messages in lower case without an end mark."""


class Pair(NamedTuple):
    """Two texts for the same agent. group: the company, or `clinc150`; agents of a group are told apart first."""

    message: str
    other: str
    group: str


class Agent(NamedTuple):
    """An agent of a company. messages: of conversations, those with which the agent got the conversation."""

    name: str
    description: str
    examples: Sequence[str]
    messages: Sequence[str]


class Pairs:
    """Draws batches of pairs. The same seed gives the same batches."""

    def __init__(self, data: Path, seed: int, *, clinc150: bool = True, talks: Sequence[str] | None = None) -> None:
        """talks: the companies to use; None = all. clinc150: whether to use CLINC150's requests."""
        self._chance = random.Random(seed)
        self._domains = _domains(data) if clinc150 else {}
        self._companies = {name: _agents(name) for name in (companies() if talks is None else talks)}

    def batch(self) -> list[Pair]:
        """Returns about sixty pairs. No two are for the same agent."""
        if self._domains and self._chance.random() < CLINC_SHARE:
            return self._of_domains()
        return self._of_companies()

    def _of_domains(self) -> list[Pair]:
        found = []
        for domain in self._chance.sample(sorted(self._domains), DOMAINS):
            for intent, texts in self._domains[domain].items():
                message, other = self._chance.sample(texts, 2)
                named = self._chance.random() < NAMED
                found.append(Pair(self._bared(message), _in_words(intent) if named else other, "clinc150"))
        return found

    def _of_companies(self) -> list[Pair]:
        names = self._chance.sample(sorted(self._companies), COMPANIES)
        return [self._of_agent(agent, name) for name in names for agent in self._companies[name]]

    def _of_agent(self, agent: Agent, group: str) -> Pair:
        message = self._chance.choice([*agent.messages, *agent.examples])
        chosen = self._chance.random()
        examples = [text for text in agent.examples if text != message]
        if chosen < DESCRIBED or (chosen < DESCRIBED + SAMPLED and not examples):
            other = self._described(agent)
        elif chosen < DESCRIBED + SAMPLED:
            other = self._chance.choice(examples)
        else:
            other = _in_words(agent.name)
        return Pair(self._bared(message), other, group)

    def _described(self, agent: Agent) -> str:
        sentences = [sentence.strip() for sentence in agent.description.split(". ") if sentence.strip()]
        text = self._chance.choice(sentences) if self._chance.random() < 0.5 else agent.description
        return f"{_in_words(agent.name)}: {text}" if self._chance.random() < PREFIXED else text

    def _bared(self, text: str) -> str:
        return text.lower().rstrip(".!? ") or text if self._chance.random() < BARE else text


def _domains(data: Path) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """CLINC150's requests by domain and intent."""
    texts = by_agent(read(data / "clinc150/train.jsonl"))
    domains: Mapping[str, Sequence[str]] = json.loads((data / "clinc150/domains.json").read_text("utf-8"))
    return {domain: {intent: texts[intent] for intent in intents if intent in texts} for domain, intents in domains.items()}


def _agents(name: str) -> Sequence[Agent]:
    found = company(name)
    messages: dict[str, list[str]] = defaultdict(list)
    for dialogue in found["dialogues"]:
        before = None
        for turn in dialogue["turns"]:
            if turn["agent"] != before and turn["agent"] is not None:
                messages[turn["agent"]].append(turn["user"])
            before = turn["agent"]
    return [Agent(each["name"], each["description"], each["examples"], messages[each["name"]]) for each in found["agents"]]


def _in_words(name: str) -> str:
    return name.replace("_", " ")
