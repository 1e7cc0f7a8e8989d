"""Sets of agents for training: the services of real dialogues, and many sets generated from single requests."""

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import contextual_phrases as say
from contextual_dialogues import NOBODY, SMALLTALK, Company, Dialogue, Step, Writer, roughened, topic_of


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60, 80, 110, 150)
_EXAMPLES = (0, 1, 3, 5, 5, 10, 10, 20, 40, 80)
_META = _words(
    "greeting goodbye thank_you yes no maybe repeat tell_joke are_you_a_bot how_old_are_you what_are_your_hobbies "
    "what_is_your_name who_do_you_work_for who_made_you where_are_you_from do_you_have_pets fun_fact "
    "what_can_i_ask_you meaning_of_life change_ai_name cancel user_name "
)
"""Intents that are small talk, or that depend on the conversation."""


class Drill(NamedTuple):
    """A set of agents with their examples, and dialogues to play with them. lines: other texts of the agents. weight: of each
    turn. descriptions: of the agents that have one. apart: name of the encoder that was fitted without these texts; empty if
    none was fitted with them.
    """

    name: str
    examples: Mapping[str, Sequence[str]]
    dialogues: Sequence[Dialogue]
    lines: Mapping[str, Sequence[str]] = {}
    weight: float = 1.0
    descriptions: Mapping[str, str] = {}
    apart: str = ""


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def by_agent(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["agent"] is not None:
            found[row["agent"]].append(row["text"])
    return dict(sorted(found.items()))


def real_dialogues(rows: Sequence[Mapping[str, Any]], agents: frozenset[str] | None = None) -> list[Dialogue]:
    """The dialogues of a file. agents: if given, requests for other agents are out of scope, and turns after them are not
    counted.
    """
    found = []
    for row in rows:
        steps: list[Step] = []
        before: str | None = None
        for turn in row["turns"]:
            agent = turn["agent"]
            known = agents is None or agent in agents
            label = agent if known else NOBODY if agent != before else None
            owner = before if before is not None and (agents is None or before in agents) else None
            steps.append(Step(turn["system"], turn["user"], label, owner))
            before = agent or before
        found.append(Dialogue(tuple(steps)))
    return found


def lines_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The replies to the user, by agent."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for before, after in zip(row["turns"], row["turns"][1:], strict=False):
            if before["agent"]:
                found[before["agent"]].append(after["system"])
    return dict(found)


def disturbed(dialogue: Dialogue, smalltalk: Sequence[str], foreign: Sequence[str], chance: random.Random) -> Dialogue:
    """Inserts small talk or an out-of-scope request between two turns, and typing errors."""
    steps: list[Step] = []
    for step in dialogue.steps:
        if steps and chance.random() < 0.08:
            odd = (chance.choice(smalltalk), SMALLTALK) if chance.random() < 0.6 else (chance.choice(foreign), NOBODY)
            steps.append(Step(step.system, odd[0], odd[1], step.owner))
        text = roughened(step.user, chance) if chance.random() < 0.08 else step.user
        steps.append(step._replace(user=text, awaits=step.system.endswith("?") and chance.random() < 0.2))
    return dialogue._replace(steps=tuple(steps))


def services(
    examples: Mapping[str, Sequence[str]],
    rows: Sequence[Mapping[str, Any]],
    smalltalk: Sequence[str],
    foreign: Sequence[str],
    count: int,
) -> Iterator[Drill]:
    """Some of the services, with few or many examples, in disturbed dialogues."""
    chance = random.Random(11)
    lines = lines_of(rows)
    for number in range(count):
        size = chance.choice((4, 6, 8, 10, 12, len(examples), len(examples)))
        few = (1, 3, 5, 5, 10, 30, 0, 100)[number % 8]
        agents = sorted(chance.sample(sorted(examples), min(size, len(examples))))
        known = {agent: chance.sample(list(examples[agent]), min(few, len(examples[agent]))) for agent in agents}
        picked = [
            row
            for row in chance.sample(list(rows), min(600, len(rows)))
            if any(turn["agent"] in known for turn in row["turns"])
        ]
        talks = [disturbed(each, smalltalk, foreign, chance) for each in real_dialogues(picked[:160], frozenset(known))]
        yield Drill(f"services {number}: {len(agents)} × {few}", known, talks, lines)


def elsewhere(rows: Sequence[Mapping[str, Any]], count: int) -> Iterator[Drill]:
    """The services, with examples from some kinds of dialogues, played in dialogues of other kinds.

    A dialogue's kind is the set of its services. Users phrase a request differently depending on the other services, so
    requests differ more from the examples here than if all kinds gave some. The examples are all requests of half of the kinds.
    All drills together have no more dialogues than the data: otherwise repeated dialogues would outweigh the rest.
    """
    chance = random.Random(31)
    lines = lines_of(rows)
    kinds = sorted({_kind(row) for row in rows})
    most = min(300, len(rows) // count)
    for number in range(count):
        here = frozenset(chance.sample(kinds, len(kinds) // 2))
        examples = by_agent([turn for row in rows if _kind(row) in here for turn in _requests(row)])
        others = [row for row in rows if _kind(row) not in here and examples.keys() >= set(_kind(row))]
        talks = real_dialogues(chance.sample(others, min(most, len(others))))
        yield Drill(f"services elsewhere {number}: {len(examples)} agents", examples, talks, lines)


def _kind(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(sorted({turn["agent"] for turn in row["turns"] if turn["agent"]}))


def _requests(row: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The messages that start a request to an agent."""
    before: str | None = None
    for turn in row["turns"]:
        if turn["agent"] not in (None, before):
            yield {"text": turn["user"], "agent": turn["agent"]}
            before = turn["agent"]


def made_up(
    clinc: Mapping[str, Sequence[str]],
    domains: Mapping[str, Sequence[str]],
    banking: Mapping[str, Sequence[str]],
    smalltalk: Sequence[str],
    foreign: Sequence[str],
    count: int,
) -> Iterator[Drill]:
    """Agents that are intents, groups of intents, or domains, and dialogues generated from their other requests."""
    chance = random.Random(23)
    everything = {**clinc, **banking}
    for number in range(count):
        pool = (clinc, clinc, everything, banking)[number % 4]
        few = chance.choice(_EXAMPLES)
        if number % 5 == 4:
            parts = {name: [intent for intent in intents if intent in clinc] for name, intents in domains.items()}
            parts = {name: parts[name] for name in chance.sample(sorted(parts), chance.randint(3, len(parts)))}
        else:
            size = min(chance.choice(_SIZES), len(pool))
            intents = chance.sample(sorted(pool), size)
            parts = _grouped(intents, chance) if number % 5 == 3 else {intent: [intent] for intent in intents}
        yield _drill(f"made up {number}", parts, everything, few, smalltalk, foreign, chance, talks=34)


def _grouped(intents: Sequence[str], chance: random.Random) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    left = list(intents)
    while left:
        taken = [left.pop() for _ in range(min(chance.randint(1, 4), len(left)))]
        groups[taken[0] if chance.random() < 0.7 else f"desk {len(groups) + 1}"] = taken
    return groups


def _drill(
    name: str,
    parts: Mapping[str, Sequence[str]],
    everything: Mapping[str, Sequence[str]],
    few: int,
    smalltalk: Sequence[str],
    foreign: Sequence[str],
    chance: random.Random,
    talks: int,
) -> Drill:
    examples, requests, taken = {}, {}, {intent for intents in parts.values() for intent in intents}
    for agent, intents in parts.items():
        if agent.startswith("desk ") and few == 0:
            few = 3
        texts = [text for intent in intents for text in everything[intent]]
        chance.shuffle(texts)
        examples[agent], requests[agent] = texts[:few], texts[few : few + 40] or texts[-5:]
    others = [intent for intent in everything if intent not in taken]
    strangers = [chance.choice(everything[intent]) for intent in chance.sample(others, min(12, len(others)))]
    strangers += chance.sample(list(foreign), min(40, len(foreign)))
    chat = chance.sample(list(smalltalk), 200) if taken.isdisjoint(_META) else list(_SAFE_CHAT)
    company = Company(examples, requests, strangers, chat)
    writer = Writer(company, chance.randrange(1 << 30))
    lines = {
        agent: [
            chance.choice((*say.QUESTIONS, *say.CONFIRMING, *say.DONE, *say.REFUSALS)).format(
                topic=topic_of(agent), slot=chance.choice(say.SLOTS)
            )
            for _ in range(4)
        ]
        for agent in parts
    }
    dialogues = [writer.dialogue() for _ in range(talks)]
    return Drill(f"{name}: {len(parts)} × {few}", examples, dialogues, lines, apart="without-clinc150")


_SAFE_CHAT = (
    "lol",
    "haha that's funny",
    "wow",
    "you're awesome",
    "i love you",
    "you are so smart",
    "omg",
    "i'm bored",
    "i'm so tired today",
    "nice weather today",
)
