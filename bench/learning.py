"""What labels teach, and what bad labels do: gains and losses on messages that no label is from.

DIR holds `banking77`. Each run takes some of its intents as agents with five examples each, and other texts of the training
file as traffic. All gains are on the test file, after what `turnwise learn` proposes; without a proposal the gain is 0.
Points are percent of the test messages.
"""

import asyncio
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.measure import Figure, progress

from turnwise.facts.cards import AgentCard
from turnwise.facts.content import text_content
from turnwise.facts.sessions import Head
from turnwise.facts.tree import AgentTree
from turnwise.learning.cases import Case, read_cases
from turnwise.learning.label_signals import Found, label_of
from turnwise.learning.labelled import Labelled
from turnwise.learning.learn import Learned, learn
from turnwise.learning.measures import chosen_of
from turnwise.matching.disk_cache import folder_from_environment
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy

NEEDED = ("banking77/train.jsonl", "banking77/test.jsonl")
SEEDS, QUICK_SEEDS = 20, 3
AGENTS, OTHERS, EXAMPLES, TRAFFIC = 10, 4, 5, 1_200
NOBODY_SHARE = 0.1
USERS, CONTRARY = 240, 20
SILENT, WRONG, PLEASED = 0.3, 0.2, 0.5
ROOT = "nobody"
MOST_LOST, SIGNALS_GAIN = 0.2, 0.3
"""Floors in points: no bad labels lose more than that; the median gain of signals."""


@dataclass(frozen=True)
class Town:
    """Agents, their traffic and the messages that judge."""

    cascade: Cascade
    traffic: tuple[tuple[str, str | None], ...]
    """Texts with the right agent, None = nobody."""
    tested: tuple[tuple[str, str | None], ...]
    chance: random.Random

    async def chosen(self, cascade: Cascade, texts: Sequence[str]) -> list[str | None]:
        if cascade.meaning is not None:
            await cascade.meaning.read(list(texts))  # in one batch
        return [chosen_of(await cascade.decide(head=Head(), message=text_content(text, "user")), ROOT) for text in texts]

    async def accuracy(self, cascade: Cascade) -> float:
        chosen = await self.chosen(cascade, [text for text, _ in self.tested])
        return sum(agent == right for agent, (_, right) in zip(chosen, self.tested, strict=True)) / len(self.tested)


class Said:
    """Labelled messages that begin sessions."""

    def __init__(self, town: Town, labelled: Sequence[Labelled]) -> None:
        self._town, self.labelled = town, labelled

    async def choices(self, cascade: Cascade, which: Sequence[int]) -> list[str | None]:
        return await self._town.chosen(cascade, [self.labelled[index].text for index in which])


def town(data: Path, seed: int) -> Town:
    """Returns the agents and messages of a seed."""
    chance = random.Random(seed)
    train, test = (by_agent(read_cases([data / name])) for name in NEEDED)
    names = chance.sample(sorted(train), AGENTS + OTHERS)
    agents, others = names[:AGENTS], names[AGENTS:]
    for name in names:
        chance.shuffle(train[name])
    cards = [AgentCard(name=name, parent=ROOT, examples=tuple(train[name][:EXAMPLES])) for name in agents]
    traffic: list[tuple[str, str | None]] = [(text, name) for name in agents for text in train[name][EXAMPLES:]]
    tested: list[tuple[str, str | None]] = [(text, name) for name in agents for text in test[name]]
    strange = [(text, None) for name in others for text in train[name]]
    traffic += chance.sample(strange, min(len(strange), round(NOBODY_SHARE * len(traffic))))
    tested += chance.sample([(text, None) for name in others for text in test[name]], round(NOBODY_SHARE * len(tested)))
    chance.shuffle(traffic)
    traffic = traffic[:TRAFFIC]
    tree = AgentTree([AgentCard(name=ROOT, resume="never"), *cards])
    cascade = Cascade(named_policy("default"), tree, keep=folder_from_environment())
    return Town(cascade, tuple(traffic), tuple(tested), chance)


def by_agent(cases: Sequence[Case]) -> dict[str, list[str]]:
    """Returns the texts by agent; of nobody under an empty name."""
    found: dict[str, list[str]] = {}
    for case in cases:
        found.setdefault(case.turns[0].agent or "", []).append(case.turns[0].user)
    return found


Labels = list[Labelled]
Scene = Callable[[Town, Labels], Labels]
"""Makes the labels of a run: from all messages of the traffic, each with the right label and with what was chosen."""


def doubted(town: Town, said: Labels, count: int) -> Labels:
    """An operator labels the wrong and doubtful decisions first; a tenth is random."""
    picked = town.chance.sample(said, count // 10)
    doubtful = sorted(said, key=lambda each: each.probability or 0.0)
    return [*picked, *[each for each in doubtful if each not in picked][: count - len(picked)]]


def false(town: Town, each: Labelled) -> Labelled:
    """The message with a wrong label."""
    names = [card.name for card in town.cascade.tree if card.name not in (each.expected, ROOT)]
    return replace(each, expected=town.chance.choice(names))


def noisy(town: Town, said: Labels) -> Labels:
    return [false(town, each) if town.chance.random() < 0.1 else each for each in doubted(town, said, 200)]


def one_class(town: Town, said: Labels) -> Labels:
    name = said[0].expected or town.cascade.tree.children(ROOT)[0]
    return [replace(each, expected=name) for each in said[:200]]


def contradictory(town: Town, said: Labels) -> Labels:
    twice = [
        replace(each, by_operator=False, probability=None, user=f"{each.user}-{number}")
        for each in said[:150]
        for number in range(2)
    ]
    return [each if number % 2 else false(town, each) for number, each in enumerate(twice)]


def gone(town: Town, said: Labels) -> Labels:
    return [replace(each, expected="retired") if town.chance.random() < 0.5 else each for each in said[:200]]


def poisoned(town: Town, said: Labels) -> Labels:
    """One user gives 1,000 labels that send everything to one agent; a hundred others give one honest label each."""
    target = town.cascade.tree.children(ROOT)[0]
    honest = [replace(each, by_operator=False, probability=None) for each in said[:100]]
    return [
        *honest,
        *(replace(each, by_operator=False, probability=None, user="mallory", expected=target) for each in many(said, 1_000)),
    ]


def named_users(town: Town, said: Labels) -> Labels:
    """One credential gives 1,000 labels in the names of 500 users; a hundred other users give one honest label each."""
    target = town.cascade.tree.children(ROOT)[0]
    lies = (
        replace(each, by_operator=False, probability=None, user=f"ghost {number % 500}", author="stolen key", expected=target)
        for number, each in enumerate(many(said, 1_000))
    )
    return [*(replace(each, by_operator=False, probability=None) for each in said[:100]), *lies]


def many(said: Labels, count: int) -> Labels:
    """That many messages, with each message once at most in the end: the same ones again if they are too few."""
    return [said[-1 - number % len(said)] for number in range(count)]


def signals(town: Town, said: Labels) -> Labels:
    """What the log says of the conversations of 240 users, by the table of signals.

    7 of 10 errors are corrected. 2 of 10 corrections are wrong: they follow a right decision and name another agent. Half of
    the other users say thanks, whatever was decided. One user in 20 contradicts every decision.
    """
    wrong = sum(each.chosen != each.expected for each in said)
    false_alarms = wrong * (1 - SILENT) * WRONG / (1 - WRONG) / max(len(said) - wrong, 1)
    found: Labels = []
    for number, each in enumerate(said):
        user = number % USERS
        label = label_of(each.chosen or ROOT, _signalled(town, each, user % CONTRARY == 0, false_alarms))
        if label is not None and not label.unsure:
            agent = None if label.agent == ROOT else label.agent
            signal = replace(each, expected=agent, user=f"user {user}", session=f"s{number}", by_operator=False)
            found.append(replace(signal, weight=label.weight, probability=None))
    confirmed = sum(each.is_right for each in found)
    shown = confirmed / max(len(said) - (len(found) - confirmed), 1)
    return [replace(each, probability=shown) if each.is_right else each for each in found]


def _signalled(town: Town, each: Labelled, contradicts: bool, false_alarms: float) -> list[Found]:
    chosen, draw = each.chosen or ROOT, town.chance.random()
    if contradicts:
        return [Found(1, chosen, "meant_another", false(town, replace(each, expected=each.chosen)).expected)]
    if each.is_right and draw < false_alarms:
        return [Found(1, chosen, "handed_over", false(town, each).expected)]
    if not each.is_right and draw >= SILENT:
        return [Found(1, chosen, "handed_over", each.expected or ROOT)]
    return [Found(1, chosen, "thanked", chosen)] if town.chance.random() < PLEASED else []


SCENES: dict[str, tuple[Scene, float | None, float | None]] = {
    "operator, 50 labels": (lambda town, said: doubted(town, said, 50), None, None),
    "operator, 200 labels": (lambda town, said: doubted(town, said, 200), None, 0.0),
    "200 labels, a tenth wrong": (noisy, None, 0.5),
    "signals alone": (signals, -MOST_LOST, SIGNALS_GAIN),
    "ten labels": (lambda town, said: doubted(town, said, 10), -MOST_LOST, None),
    "one class only": (one_class, -MOST_LOST, None),
    "contradictory labels": (contradictory, -MOST_LOST, None),
    "agents that are gone": (gone, -MOST_LOST, None),
    "one user, 1,000 false labels": (poisoned, -MOST_LOST, None),
    "one credential, 500 users": (named_users, -MOST_LOST, None),
}
"""By name: the labels, the floor of the worst run and the floor of the median, in points."""


async def labelled(town: Town) -> Labels:
    """All messages of the traffic with the right label. The probability is the confidence, for `doubted`."""
    if town.cascade.meaning is not None:
        await town.cascade.meaning.read([text for text, _ in town.traffic])
    found = []
    for number, (text, right) in enumerate(town.traffic):
        decided = await town.cascade.decide(head=Head(), message=text_content(text, "user"))
        found.append(
            Labelled(
                text=text,
                expected=right,
                chosen=chosen_of(decided, ROOT),
                user=f"user {number}",
                session="s",
                at=float(number),
                probability=decided.confidence,
            )
        )
    return found


async def run(data: Path, seed: int, names: Sequence[str], step: Callable[[str], None]) -> dict[str, tuple[float, Learned]]:
    """Returns the gain in points, and what was learned, of each scene."""
    here = town(data, seed)
    await here.cascade.prepare()
    said, before = await labelled(here), await here.accuracy(here.cascade)
    found = {}
    for name in names:
        made = SCENES[name][0](here, said)
        learned = await learn(here.cascade, Said(here, made), seed=seed)
        after = before
        if learned.proposal is not None:
            async with learned.proposal.cascade(here.cascade) as changed:
                after = await here.accuracy(changed)
        found[name] = (100 * (after - before), learned)
        step(name)
    here.cascade.close()
    return found


def figures(data: Path, *, quick: bool) -> list[Figure]:
    """Runs all scenes with all seeds. Returns a row for each scene."""
    seeds = QUICK_SEEDS if quick else SEEDS
    with progress("learning", seeds * len(SCENES)) as step:
        runs = [asyncio.run(run(data, seed, list(SCENES), step)) for seed in range(seeds)]
    return [_row(name, [each[name] for each in runs]) for name in SCENES]


def _row(name: str, found: Sequence[tuple[float, Learned]]) -> Figure:
    _, worst, median = SCENES[name]
    gains = [gain for gain, _ in found]
    middle = statistics.median(gains)
    learned = sum(each.proposal is not None for _, each in found)
    reasons = Counter(each.refusal.split(";")[0].split(",")[0][:60] for _, each in found if each.refusal)
    why = f"; refused: {reasons.most_common(1)[0][0]}" if reasons else ""
    value = f"{middle:+.1f} ({min(gains):+.1f} to {max(gains):+.1f}), learned in {learned} of {len(found)}{why}"
    kept = (worst is None or min(gains) >= worst) and (median is None or middle >= median)
    bounds = [f"each ≥ {worst:+.1f}" if worst is not None else "", f"median ≥ {median:+.1f}" if median is not None else ""]
    bound = ", ".join(each for each in bounds if each)
    return Figure(name, value, "", bound, kept if bound else None)


def missing(data: Path) -> list[str]:
    """Returns the files that the benchmark needs and that are not in the folder."""
    return [name for name in NEEDED if not (data / name).is_file()]
