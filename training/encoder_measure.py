"""Measures the packaged encoder on companies: python training/encoder_measure.py --third K [--errors]

Decides what opens a conversation in training/talks, for the companies K, K+3, K+6, …, as `turnwise eval` does: by the
description alone, and with one or three examples. `training/encoder.py --third K` makes an encoder that has not seen them.
"""

import argparse
import asyncio
from collections.abc import Iterator

from contextual_talks import companies, company

from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.learning.cases import Case, Turn
from turnwise.learning.evaluate import evaluate
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy

_ROOT = "desk"


def tree(name: str, examples: int) -> AgentTree:
    """Returns the company's agents with that many examples, below a root."""
    agents = company(name)["agents"]
    cards = [
        AgentCard(name=each["name"], parent=_ROOT, description=each["description"], examples=tuple(each["examples"][:examples]))
        for each in agents
    ]
    return AgentTree([AgentCard(name=_ROOT), *cards])


def openings(name: str) -> Iterator[Case]:
    """The first message of each conversation that opens with an agent."""
    agents = {each["name"] for each in company(name)["agents"]}
    for dialogue in company(name)["dialogues"]:
        first = dialogue["turns"][0]
        if first["agent"] in agents:
            yield Case((Turn("", first["user"], first["agent"]),), dialogue["id"])


async def share(names: list[str], examples: int, *, shown: bool) -> float:
    """Returns the percentage of right openings."""
    right: list[bool] = []
    for name in names:
        cascade = Cascade(named_policy("default"), tree(name, examples))
        await cascade.prepare()
        cases = list(openings(name))
        for case, outcome in zip(cases, await evaluate(cascade, cases, history="true"), strict=True):
            right.append(outcome.agent == case.turns[0].agent)
            if shown and not right[-1]:
                print(f"  {name}: {case.turns[0].user!r}: {outcome.agent}, not {case.turns[0].agent}")
    return 100 * sum(right) / len(right)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the packaged encoder on companies.")
    parser.add_argument("--third", type=int, choices=(0, 1, 2), required=True)
    parser.add_argument("--errors", action="store_true")
    given = parser.parse_args()
    names = companies()[given.third :: 3]
    for examples in (0, 1, 3):
        found = asyncio.run(share(names, examples, shown=given.errors))
        print(f"{len(names)} companies, {examples} examples and the description: {found:.1f} %")


if __name__ == "__main__":
    main()
