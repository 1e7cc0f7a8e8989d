"""Generates dialogues from single requests: some are the agents' examples, the others are used as messages."""

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import contextual_phrases as say

_T = TypeVar("_T")

NOBODY, SMALLTALK, STAY = "\x00nobody", "\x00smalltalk", "\x00stay"
"""Labels beside the agents: out of scope; small talk; the active agent keeps it, or it is out of scope."""


class Step(NamedTuple):
    """The reply before the message, the message, and the right agent (None: not counted). `owner`: the reply's author."""

    system: str
    user: str
    label: str | None
    owner: str | None = None
    awaits: bool = False
    hits: Mapping[str, float] = {}


class Dialogue(NamedTuple):
    """The steps in order, and the caller's context."""

    steps: tuple[Step, ...]
    previous: tuple[str, ...] = ()


class Company(NamedTuple):
    """A set of agents: examples by agent (none = its name only), requests that are no examples, out-of-scope requests."""

    examples: Mapping[str, Sequence[str]]
    requests: Mapping[str, Sequence[str]]
    foreign: Sequence[str]
    smalltalk: Sequence[str]
    kind: str = ""


def topic_of(name: str) -> str:
    """An agent's name as words."""
    return name.replace("_", " ").replace("-", " ").strip().lower()


class Writer:
    """Generates dialogues of one company. The same seed gives the same dialogues."""

    def __init__(self, company: Company, seed: int) -> None:
        self._candidates_for = company
        self._random = random.Random(seed)
        self._agents = [name for name, texts in company.requests.items() if texts]

    def dialogue(self) -> Dialogue:
        """A dialogue of 3 to 14 messages, a fifth to a third of which change the agent."""
        chance = self._random
        talk = _Talk(self._candidates_for, self._agents, chance)
        for _ in range(chance.randint(3, 14)):
            talk.go_on()
        first = next((step.label for step in talk.steps if step.label in self._candidates_for.requests), None)
        previous: tuple[str, ...] = ()
        if chance.random() < 0.1:
            previous = tuple(
                dict.fromkeys((chance.choice(self._agents), *((first,) if first and chance.random() < 0.7 else ())))
            )
        return Dialogue(tuple(talk.steps), previous)


class _Talk:
    """A dialogue being generated: the active agent, its last text, and the agents it left."""

    def __init__(self, company: Company, agents: Sequence[str], chance: random.Random) -> None:
        self.company, self.agents, self.chance = company, agents, chance
        self.steps: list[Step] = []
        self.current: str | None = None
        self.left: list[str] = []
        self.reply, self.kind = "", ""
        self.owner: str | None = None
        self.switching = chance.uniform(0.1, 0.32)
        self.patterned = (
            frozenset(agent for agent in agents if chance.random() < 0.5) if chance.random() < 0.35 else frozenset()
        )
        self.topical = chance.random()

    def go_on(self) -> None:
        """Adds the next message."""
        draw = self.chance.random()
        if self.current is None:
            if draw < 0.04:
                self._say(self._pick((*say.GREETINGS, *say.GREETINGS, *say.THANKS, *say.CLOSING[6:8])), SMALLTALK)
                self._reply(self._pick(say.CHAT), "chat")
            elif draw < 0.1:
                self._chat()
            elif draw < 0.17:
                self._nobodys()
            elif draw < 0.2:
                self._strange()
            elif draw < 0.26:
                self._call()
            else:
                self._request(self.chance.choice(self.agents), say.OPENINGS)
        elif draw < self.switching:
            self._switch()
        elif draw < self.switching + 0.09:
            self._chat()
        elif draw < self.switching + 0.17:
            self._nobodys()
        elif draw < self.switching + 0.2:
            self._strange()
        else:
            self._keep()

    def _switch(self) -> None:
        others = [agent for agent in self.agents if agent != self.current]
        draw = self.chance.random()
        if self.left and draw < 0.3:
            self._return()
        elif draw < 0.4:
            self._call()
        elif others:
            self._request(self.chance.choice(others), say.PREFIXES)

    def _return(self) -> None:
        target = self.left[-1] if self.chance.random() < 0.75 else self.chance.choice(self.left)
        if target == self.current:
            self._keep()
            return
        draw = self.chance.random()
        if draw < 0.25 and target == self.left[-1]:
            self._say(self._pick(say.RETURNS_BLIND), target)
        elif draw < 0.7:
            self._say(self._pick(say.RETURNS).format(topic=self._topic(target)), target)
        else:
            self._say(self._pick(say.RETURNS_WITH) + self._of(target), target)
        self._answer(target)

    def _call(self) -> None:
        target = self.chance.choice(self.agents)
        name = target if self.chance.random() < 0.3 else topic_of(target)
        self._say(self._pick(say.CALLS).format(name=name), target)
        self._take(target)
        self._reply(
            self._pick(
                ("Hello, how can I help you?", "You're now with {topic}. What can I do for you?", "Hi! What do you need?")
            ),
            "asked",
        )

    def _request(self, target: str, prefixes: Sequence[str]) -> None:
        text = self._of(target)
        prefix = self._pick(prefixes)
        hits = {target: self._confidence()} if target in self.patterned and self.chance.random() < 0.6 else {}
        if self.patterned and self.chance.random() < 0.05:
            hits[self._pick(sorted(self.patterned))] = self._confidence()
        self._say(prefix + text, target, hits)
        self._answer(target)

    def _keep(self) -> None:
        assert self.current is not None
        draw, target = self.chance.random(), self.current
        if self.kind in ("asked", "confirm") and self.chance.random() < 0.12 and len(self.agents) > 1:
            self._mention(target)
            return
        if self.kind == "asked" and draw < 0.75:
            self._say(self._filled(self._pick(say.ANSWERS)), target, self._false_hits())
        elif self.kind == "confirm" and draw < 0.75:
            self._say(self._pick(say.YES if self.chance.random() < 0.65 else say.NO), target, self._false_hits())
        elif self.kind == "offers" and draw < 0.5:
            self._say(self._pick((*say.CLOSING, *say.THANKS)), target)
        elif draw < 0.35:
            self._say(self._pick((*say.THANKS, *say.YES[:8])), target)
        elif draw < 0.72:
            self._say(self._filled(self._pick(say.FOLLOWUPS)), target, self._false_hits())
        else:
            self._request(target, say.PREFIXES)
            return
        self._answer(target)

    def _mention(self, target: str) -> None:
        """Adds a message for the target that mentions another agent's topic."""
        other = self.chance.choice([agent for agent in self.agents if agent != target])
        hits = {other: self._confidence()} if other in self.patterned and self.chance.random() < 0.8 else {}
        self._say(self._filled(self._pick(say.MENTIONS)).replace("{topic}", self._topic(other)), target, hits)
        self._answer(target)

    def _chat(self) -> None:
        self._say(self._pick(self.company.smalltalk), SMALLTALK)
        if self.kind not in ("asked", "confirm") or self.chance.random() < 0.5:
            self._reply(self._pick(say.CHAT), "chat")

    def _nobodys(self) -> None:
        if not self.company.foreign:
            return
        prefix = self._pick(say.PREFIXES if self.current else say.OPENINGS)
        self._say(prefix + self._pick(self.company.foreign), NOBODY)
        self._reply(self._pick(say.REFUSALS), "refused")

    def _strange(self) -> None:
        self._say(self._pick(say.FOREIGN if self.chance.random() < 0.6 else say.STRANGE), STAY)
        if self.chance.random() < 0.5:
            self._reply(self._pick(say.REFUSALS), "refused")

    def _answer(self, target: str) -> None:
        self._take(target)
        draw = self.chance.random()
        if draw < 0.38:
            self._reply(self._pick(say.QUESTIONS), "asked")
        elif draw < 0.58:
            self._reply(self._pick(say.CONFIRMING), "confirm")
        elif draw < 0.83:
            self._reply(self._pick(say.DONE), "done")
        else:
            self._reply(
                f"{self._pick(say.DONE)} {self._pick(say.OFFERS)}" if self.chance.random() < 0.6 else self._pick(say.OFFERS),
                "offers",
            )

    def _take(self, target: str) -> None:
        if self.current is not None and self.current != target:
            self.left = [agent for agent in self.left if agent not in (self.current, target)] + [self.current]
        self.current = target

    def _reply(self, template: str, kind: str) -> None:
        topic = self._topic(self.current) if self.current and self.chance.random() < self.topical else "that"
        self.reply = template.format(topic=topic, slot=self._pick(say.SLOTS))
        self.kind, self.owner = kind, self.current

    def _say(self, text: str, label: str, hits: Mapping[str, float] | None = None) -> None:
        if self.chance.random() < 0.12:
            text = roughened(text, self.chance)
        awaits = bool(self.steps) and self.kind in ("asked", "confirm") and self.chance.random() < 0.4
        self.steps.append(Step(self.reply, text, label, self.owner, awaits, hits or {}))

    def _topic(self, agent: str | None) -> str:
        texts = self.company.examples.get(agent or "", ())
        if texts and self.chance.random() < 0.35:
            words = self.chance.choice(texts).split()
            return " ".join(words[-4:])
        return topic_of(agent or "")

    def _of(self, agent: str) -> str:
        return self.chance.choice(self.company.requests[agent])

    def _false_hits(self) -> dict[str, float]:
        if self.patterned and self.chance.random() < 0.35:
            return {self._pick(sorted(self.patterned)): self._confidence()}
        return {}

    def _confidence(self) -> float:
        return self._pick((0.7, 0.75, 0.8, 0.8, 0.85, 0.9, 0.95))

    def _pick(self, of: Sequence[_T]) -> _T:
        return self.chance.choice(of)

    def _filled(self, template: str) -> str:
        pick, digits = self.chance.choice, "".join(self.chance.choices("0123456789", k=10))
        person = pick(say.PEOPLE)
        return template.format(
            digits=digits[: self.chance.randint(3, 10)],
            code=pick(("AB-", "#", "ord", "X", "RF")) + digits[: self.chance.randint(3, 6)],
            email=person.split()[0].lower()
            + pick((".", "_", ""))
            + digits[:2]
            + pick(("@example.com", "@gmail.com", "@mail.org")),
            date=pick(say.DATES),
            time=pick(("5 pm", "10:30", "noon", "9am", "half past six", "18:00", "evening")),
            person=person,
            city=pick(say.CITIES),
            amount=pick(("$50", "200 dollars", "1,500", "30 euros", "£20", "twenty")),
            small=pick(("2", "3", "four", "two", "1", "6")),
            nth=pick(say.NTHS),
            color=pick(say.COLORS),
            street=pick(say.STREETS),
            phone=f"555-{digits[:3]}-{digits[3:7]}",
            four=digits[:4],
            slot=pick(say.SLOTS),
            topic="{topic}",
        )


def roughened(text: str, chance: random.Random) -> str:
    """The text as typed in a hurry: in capitals, without punctuation, or with typing errors."""
    draw = chance.random()
    if draw < 0.15:
        return text.upper()
    if draw < 0.3:
        return "".join(c for c in text.lower() if c.isalnum() or c in " @")
    letters = list(text)
    for _ in range(max(1, len(letters) // 25)):
        at = chance.randrange(len(letters)) if letters else 0
        slip = chance.random()
        if not letters or not letters[at].isalpha():
            continue
        if slip < 0.35 and at + 1 < len(letters):
            letters[at], letters[at + 1] = letters[at + 1], letters[at]
        elif slip < 0.65:
            del letters[at]
        elif slip < 0.85:
            letters.insert(at, letters[at])
        else:
            letters[at] = chance.choice("abcdefghijklmnopqrstuvwxyz")
    return "".join(letters)
