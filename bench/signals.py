"""What signals alone teach: a simulated population whose signals are partly wrong (behaviours H2, H5).

Examples of agents, traffic and a test set come from files of single messages. A user who was served wrongly corrects it in 7
of 10 cases; 2 of 10 corrections are wrong: they follow a right decision and name another agent. Half of the other users say
thanks, whatever was decided. One user in 20 contradicts every decision. The gain is the change of accuracy on the test set, in
points.

    python -m bench.signals TRAIN.jsonl TEST.jsonl --seeds 20
"""

import argparse
import asyncio
import random
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from turnwise.facts.cards import AgentCard
from turnwise.facts.tree import AgentTree
from turnwise.learning.cases import Case, read_cases
from turnwise.learning.evaluate import evaluate
from turnwise.learning.labelled import Labelled
from turnwise.learning.learn import learn
from turnwise.learning.signals import Found, label_of
from turnwise.learning.traffic import CaseTraffic
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy

EXAMPLES, USERS, CONTRARY = 5, 40, 20
SILENT, WRONG, PLEASED = 0.3, 0.2, 0.5
ROOT = "nobody"


def signalled(each: Labelled, contradicts: bool, false_alarms: float, agents: Sequence[str], draw: random.Random) -> str | None:
    """Returns the agent that the signals of a message name; None when it gives none that count.

    Args:
        each: The message with the right agent.
        contradicts: Whether the user contradicts everything.
        false_alarms: The probability of a correction after a right decision.
        agents: All agents.
        draw: Draws.
    """
    chosen, others = each.chosen or ROOT, [name for name in agents if name not in (each.chosen, each.expected)]
    if contradicts:
        found = [Found(1, chosen, "meant_another", draw.choice(others))]
    elif each.is_right and draw.random() < false_alarms:
        found = [Found(1, chosen, "handed_over", draw.choice(others))]
    elif not each.is_right and draw.random() >= SILENT:
        found = [Found(1, chosen, "handed_over", each.expected)]
    else:
        found = [Found(1, chosen, "thanked", chosen)] if draw.random() < PLEASED else []
    label = label_of(chosen, found)
    return None if label is None or label.unsure else label.agent


async def gain(train: Sequence[Case], test: Sequence[Case], messages: int, seed: int) -> tuple[float, str, int]:
    """Returns the gain in points, why nothing was learned or nothing, and the number of labels."""
    draw = random.Random(seed)
    cases = draw.sample(list(train), len(train))
    examples: dict[str, list[str]] = {}
    traffic_cases: list[Case] = []
    for case in cases:
        name, text = case.turns[0].agent, case.turns[0].user
        if name is not None and len(examples.setdefault(name, [])) < EXAMPLES:
            examples[name].append(text)
        elif len(traffic_cases) < messages:
            traffic_cases.append(case)
    cards = [AgentCard(name=name, parent=ROOT, examples=tuple(texts)) for name, texts in examples.items()]
    cascade = Cascade(named_policy("default"), AgentTree([AgentCard(name=ROOT, resume="never"), *cards]))
    said = await CaseTraffic.read(traffic_cases, cascade)
    wrong = sum(not each.is_right for each in said.labelled)
    true_alarms, rights = wrong * (1 - SILENT), max(len(said.labelled) - wrong, 1)
    false_alarms = min(true_alarms * WRONG / (1 - WRONG) / rights, 1.0)
    labelled: list[Labelled] = []
    places: list[tuple[int, int]] = []
    for number, each in enumerate(said.labelled):
        user = draw.randrange(USERS)
        agent = signalled(each, user % CONTRARY == 0, false_alarms, list(examples), draw)
        if agent is not None:
            labelled.append(replace(each, expected=agent, user=f"u{user}", session=f"s{number}", by_operator=False))
            places.append((number, 0))
    learned = await learn(cascade, CaseTraffic(traffic_cases, labelled, places), seed=seed)
    change = 0.0
    if learned.proposal is not None:
        proposal = learned.proposal
        after = cascade.with_policy(proposal.spec(cascade.spec), tree=proposal.tree(cascade.tree))
        change = 100 * (await _accuracy(after, test) - await _accuracy(cascade, test))
        after.close()
    cascade.close()
    return change, learned.refusal, len(labelled)


async def _accuracy(cascade: Cascade, cases: Sequence[Case]) -> float:
    outcomes = await evaluate(cascade, cases)
    return sum(outcome.right for outcome in outcomes) / len(outcomes)


async def main() -> None:
    """Runs all seeds and prints each gain, the median and the worst."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--agents", type=int, default=10)
    parser.add_argument("--messages", type=int, default=600)
    parser.add_argument("--tested", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    train, test = read_cases([given.train]), read_cases([given.test])
    gains = []
    for seed in range(given.seeds):
        draw = random.Random(1_000 + seed)
        names = sorted({case.turns[0].agent for case in train if case.turns[0].agent})
        kept = set(draw.sample(names, min(given.agents, len(names))))
        mine = [case for case in train if case.turns[0].agent in kept]
        judged = [case for case in test if case.turns[0].agent in kept]
        change, refusal, labels = await gain(mine, judged[: given.tested], given.messages, seed)
        gains.append(change)
        print(f"seed {seed}: {change:+.2f} points from {labels} labels {refusal}", flush=True)
    print(f"median {statistics.median(gains):+.2f}, worst {min(gains):+.2f}, best {max(gains):+.2f}, {len(gains)} seeds")


if __name__ == "__main__":
    asyncio.run(main())
