"""What labels of conversations teach: agents known by five examples each, and an operator who labels some of the decisions.

DIR holds `sgd`. The traffic are dialogues that the contextual model never saw: some of `sgd/dev.jsonl`, which no training uses.
With a model of `training/contextual.py --first 1500`, they are the others of `sgd/train.jsonl`. The gain is the change of
accuracy on other dialogues of `sgd/dev.jsonl`, each continued with the router's own choices, with an interval over dialogues.
"""

import asyncio
import functools
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, cast

from bench.measure import Figure, progress

from turnwise.facts.cards import AgentCard
from turnwise.facts.content import Content
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Head
from turnwise.facts.tree import AgentTree
from turnwise.learning.cases import Case, read_cases
from turnwise.learning.draft_gain import Difference, paired_difference
from turnwise.learning.evaluate import evaluate
from turnwise.learning.labelled import Labelled
from turnwise.learning.learn import learn
from turnwise.learning.measures import Outcome, chosen_of
from turnwise.learning.tune import Scored, contextual_stage
from turnwise.matching.disk_cache import folder_from_environment
from turnwise.selection.cascade import Cascade
from turnwise.selection.contextual import trained_model as contextual_model
from turnwise.selection.named import named_policy

NEEDED = ("sgd/dev.jsonl", "sgd/examples_5.jsonl")
SEEDS, QUICK_SEEDS = 5, 1
TRAFFIC, TESTED, QUICK_SHARE = 500, 400, 4
RANDOM_SHARE, WRONG_SHARE = 0.1, 0.1
LABELS: Mapping[str, tuple[int, float, float | None]] = {
    "dialogues, 50 labels": (50, 0.0, None),
    "dialogues, 200 labels": (200, 0.0, 1.0),
    "dialogues, 200 labels, a tenth wrong": (200, WRONG_SHARE, 0.5),
    "dialogues, 1,000 labels": (1_000, 0.0, 2.0),
}
"""By name: the number of labels, the share of wrong ones, and the floor of the median gain in points."""
MOST_LOST = 1.0
"""No agent's whole interval may lie below this loss, in points."""
ROOT = "nobody"


@dataclass(frozen=True, slots=True)
class Said:
    """A decision of the traffic, with what was known when it was made."""

    head: Head
    message: Content
    labelled: Labelled


class _Heads:
    """A cascade that keeps the heads that it decides with."""

    def __init__(self, cascade: Cascade) -> None:
        self._cascade, self.spec, self.tree = cascade, cascade.spec, cascade.tree
        self.seen: list[tuple[Head, Content]] = []

    async def decide(self, *, head: Head, message: Content) -> Selection:
        self.seen.append((head, message))
        return await self._cascade.decide(head=head, message=message)


class Talk:
    """Labelled decisions in their conversations, as they went."""

    def __init__(self, said: Sequence[Said], labelled: Sequence[Labelled]) -> None:
        self._said, self.labelled = said, labelled

    async def choices(self, cascade: Cascade, which: Sequence[int]) -> list[str | None]:
        return [chosen_of(each, ROOT) for each in await self._again(cascade, which)]

    async def weighed(self, cascade: Cascade, which: Sequence[int]) -> list[Scored]:
        stage = contextual_stage(cascade)
        verdicts = [{each.selector: each for each in found.verdicts} for found in await self._again(cascade, which)]
        return [{each.agent: each.score for each in found[stage].candidates} if stage in found else {} for found in verdicts]

    async def _again(self, cascade: Cascade, which: Sequence[int]) -> list[Selection]:
        said = [self._said[index] for index in which]
        return [await cascade.decide(head=each.head, message=each.message) for each in said]


async def said_in(cascade: Cascade, cases: Sequence[Case]) -> list[Said]:
    """Plays the dialogues with the router's own choices. Every decision has the right label, with its confidence."""
    heads = _Heads(cascade)
    outcomes = await evaluate(cast("Cascade", heads), cases)
    return [
        Said(head, message, _labelled(outcome, head, number))
        for number, (outcome, (head, message)) in enumerate(zip(outcomes, heads.seen, strict=True))
        if outcome.scored
    ]


def _labelled(outcome: Outcome, head: Head, number: int) -> Labelled:
    return Labelled(
        text=outcome.text,
        expected=outcome.expected,
        chosen=outcome.chosen,
        user=outcome.dialogue or "",
        session="s",
        at=float(number),
        opens=outcome.expected != head.active_agent,
        probability=outcome.confidence,
    )


def picked(said: Sequence[Said], count: int, wrong: float, chance: random.Random) -> list[Said]:
    """Returns the decisions that an operator labels: the doubtful ones first, and a tenth at random; some labels are wrong."""
    some = set(chance.sample(range(len(said)), min(round(RANDOM_SHARE * count), len(said))))
    doubtful = sorted(set(range(len(said))) - some, key=lambda place: (said[place].labelled.probability or 0.0, place))
    agents = sorted({each.labelled.expected for each in said if each.labelled.expected})
    found = []
    for place in sorted([*some, *doubtful[: count - len(some)]]):
        each = replace(said[place].labelled, probability=None)
        if chance.random() < wrong:
            each = replace(each, expected=chance.choice([name for name in agents if name != each.expected]))
        found.append(replace(said[place], labelled=each))
    return found


class Gain(NamedTuple):
    """What a run gained on the tested dialogues."""

    all: Difference
    by_agent: Mapping[str, Difference]
    refusal: str


async def gain(cascade: Cascade, talk: Talk, tested: Sequence[Case], before: Sequence[Outcome], seed: int) -> Gain:
    """Learns, and measures what is proposed. Without a proposal the gain is 0."""
    learned = await learn(cascade, talk, seed=seed)
    if learned.proposal is None:
        return Gain(Difference(0.0, 0.0, 0.0, len(before)), {}, learned.refusal)
    async with learned.proposal.cascade(cascade) as changed:
        after = await evaluate(changed, tested)
    pairs = [(one, two) for one, two in zip(before, after, strict=True) if one.scored]
    names = sorted({one.expected for one, _ in pairs if one.expected})
    by_agent = {name: _difference([pair for pair in pairs if pair[0].expected == name], seed) for name in names}
    return Gain(_difference(pairs, seed), by_agent, "")


def _difference(pairs: Sequence[tuple[Outcome, Outcome]], seed: int) -> Difference:
    groups = [one.dialogue or "" for one, _ in pairs]
    return paired_difference([one.right for one, _ in pairs], [two.right for _, two in pairs], groups, seed=seed)


async def run(data: Path, seed: int, names: Sequence[str], *, share: int = 1, trained: Path | None = None) -> dict[str, Gain]:
    """Returns the gain of each of `LABELS` with one seed.

    Args:
        data: The folder of data sets.
        seed: Shuffles the dialogues, and draws the random labels.
        names: Which of `LABELS`.
        share: Divides the numbers of dialogues.
        trained: A model that was trained without the traffic; None = the packaged one, with traffic of `sgd/dev.jsonl`.
    """
    chance = random.Random(seed)
    traffic, tested = _parts(data, chance, trained)
    cards: dict[str, list[str]] = {}
    for case in read_cases([data / NEEDED[1]]):
        cards.setdefault(case.turns[0].agent or ROOT, []).append(case.turns[0].user)
    tree = AgentTree(
        [
            AgentCard(name=ROOT, resume="never"),
            *(AgentCard(name=name, parent=ROOT, examples=tuple(texts)) for name, texts in cards.items()),
        ]
    )
    cascade = Cascade(named_policy("default"), tree, keep=folder_from_environment())
    await cascade.prepare()
    said = await said_in(cascade, traffic[: TRAFFIC // share])
    tested = tested[: TESTED // share]
    before = await evaluate(cascade, tested)
    found = {}
    for name in names:
        count, wrong, _ = LABELS[name]
        some = picked(said, count, wrong, chance)
        talk = Talk(some, [each.labelled for each in some])
        found[name] = await gain(cascade, talk, tested, before, seed)
    cascade.close()
    return found


def _parts(data: Path, chance: random.Random, trained: Path | None) -> tuple[list[Case], list[Case]]:
    """Returns the dialogues of the traffic, and those that judge."""
    dev = list(read_cases([data / NEEDED[0]]))
    chance.shuffle(dev)
    if trained is None:
        return dev[:TRAFFIC], dev[TRAFFIC:]
    model = contextual_model.parse(trained.read_text("utf-8"))
    contextual_model.load_shipped = functools.cache(lambda: model)
    others = list(read_cases([data / "sgd/train.jsonl"]))[_TRAINED_ON:]
    return chance.sample(others, len(others)), dev


_TRAINED_ON = 1_500


def figures(data: Path, *, quick: bool, trained: Path | None = None) -> list[Figure]:
    """Runs all numbers of labels with all seeds. Returns a row for each."""
    seeds = QUICK_SEEDS if quick else SEEDS
    runs = []
    with progress("learning from dialogues", seeds) as step:
        for seed in range(seeds):
            share = QUICK_SHARE if quick else 1
            runs.append(asyncio.run(run(data, seed, list(LABELS), share=share, trained=trained)))
            step(f"seed {seed}")
    return [_row(name, [each[name] for each in runs]) for name in LABELS]


def _row(name: str, found: Sequence[Gain]) -> Figure:
    floor = LABELS[name][2]
    gains = [100 * each.all.mean for each in found]
    middle = statistics.median(gains)
    low, high = (
        100 * statistics.median(bound) for bound in zip(*((each.all.low, each.all.high) for each in found), strict=True)
    )
    losers = sorted({agent for each in found for agent, one in each.by_agent.items() if 100 * one.high < -MOST_LOST})
    refused = [each.refusal for each in found if each.refusal]
    value = f"{middle:+.1f} ({min(gains):+.1f} to {max(gains):+.1f}), interval {low:+.1f} to {high:+.1f}"
    value += f"; loses: {', '.join(losers)}" if losers else ""
    value += f"; refused {len(refused)} times: {refused[0][:60]}" if refused else ""
    if floor is None:
        return Figure(name, value, "", "no agent loses", not losers)
    return Figure(name, value, "", f"median ≥ {floor:+.1f}, no agent loses", middle >= floor and not losers)


def missing(data: Path) -> list[str]:
    """Returns the files that the benchmark needs and that are not in the folder."""
    return [name for name in NEEDED if not (data / name).is_file()]
