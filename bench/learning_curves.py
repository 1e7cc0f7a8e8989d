"""Gain by number of labels: corrections of the most doubtful decisions against labels of random ones.

DIR holds `clinc150` and `banking77`. Every intent is an agent with five examples; other texts of the training file are the
traffic. The gain is on texts of the test file, after what `turnwise learn` proposes, in points.
"""

import asyncio
import random
import statistics
from collections.abc import Sequence
from pathlib import Path

from bench.learning import ROOT, Said, Town, by_agent, labelled
from bench.measure import Figure, progress

from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.learning.cases import read_cases
from turnwise.learning.labelled import Labelled
from turnwise.learning.learn import learn
from turnwise.matching.disk_cache import folder_from_environment
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy

SETS = ("clinc150", "banking77")
NEEDED = tuple(f"{name}/{part}.jsonl" for name in SETS for part in ("train", "test"))
COUNTS, QUICK_COUNTS = (25, 50, 100, 200), (200,)
SEEDS, QUICK_SEEDS = 5, 1
EXAMPLES, TRAFFIC, TESTED = 5, 2_000, 1_000
WAYS = ("by doubt", "at random")


def town(data: Path, name: str, seed: int) -> Town:
    """Returns all agents of a data set, with traffic and messages that judge."""
    chance = random.Random(seed)
    train, test = (by_agent(read_cases([data / name / f"{part}.jsonl"])) for part in ("train", "test"))
    agents = sorted(agent for agent in train if agent)
    for agent in agents:
        chance.shuffle(train[agent])
    cards = [AgentCard(name=agent, parent=ROOT, examples=tuple(train[agent][:EXAMPLES])) for agent in agents]
    traffic: list[tuple[str, str | None]] = [(text, agent) for agent in agents for text in train[agent][EXAMPLES:]]
    tested: list[tuple[str, str | None]] = [(text, agent or None) for agent in sorted(test) for text in test[agent]]
    tree = AgentTree([AgentCard(name=ROOT, resume="never"), *cards])
    cascade = Cascade(named_policy("default"), tree, keep=folder_from_environment())
    sampled = (tuple(chance.sample(each, min(most, len(each)))) for each, most in ((traffic, TRAFFIC), (tested, TESTED)))
    return Town(cascade, next(sampled), next(sampled), chance)


def picked(said: Sequence[Labelled], count: int, way: str, chance: random.Random) -> list[Labelled]:
    """Returns the decisions that are labelled: the most doubtful, or random ones. In the order of time."""
    if way == "at random":
        return sorted(chance.sample(list(said), count), key=lambda each: each.at)
    doubtful = sorted(said, key=lambda each: (each.probability or 0.0, each.at))[:count]
    return sorted(doubtful, key=lambda each: each.at)


async def run(data: Path, name: str, seed: int, counts: Sequence[int]) -> dict[tuple[str, int], float]:
    """Returns the gain in points by the way of picking and the number of labels."""
    here = town(data, name, seed)
    await here.cascade.prepare()
    said, before = await labelled(here), await here.accuracy(here.cascade)
    found = {}
    for way in WAYS:
        for count in counts:
            learned = await learn(here.cascade, Said(here, picked(said, count, way, here.chance)), seed=seed)
            after = before
            if learned.proposal is not None:
                async with learned.proposal.cascade(here.cascade) as changed:
                    after = await here.accuracy(changed)
            found[way, count] = 100 * (after - before)
    here.cascade.close()
    return found


def figures(data: Path, *, quick: bool) -> list[Figure]:
    """Runs both data sets. Returns a row for each way of picking, with the median gain at each number of labels."""
    seeds, counts = (QUICK_SEEDS, QUICK_COUNTS) if quick else (SEEDS, COUNTS)
    rows = []
    with progress("gain by labels", seeds * len(SETS)) as step:
        for name in SETS:
            runs = []
            for seed in range(seeds):
                runs.append(asyncio.run(run(data, name, seed, counts)))
                step(name)
            for way in WAYS:
                points = [f"{statistics.median(each[way, count] for each in runs):+.1f} by {count}" for count in counts]
                rows.append(Figure(f"{name}, {way}", ", ".join(points)))
    return rows


def missing(data: Path) -> list[str]:
    """Returns the files that the benchmark needs and that are not in the folder."""
    return [name for name in NEEDED if not (data / name).is_file()]
