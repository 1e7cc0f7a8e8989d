"""Routing by memory: conversations in which a message names a thing that an agent noted before."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from bench.measure import Figure, progress

from turnwise import Runner, agent
from turnwise.facts.memory import MemoryConfig
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection

DATA = Path(__file__).parent / "data" / "remembered.yaml"
FLOOR = 80.0


class Case(NamedTuple):
    """A message of a new session, and what happened before."""

    noted_by: str
    before: str
    now: str
    right: str


class Trade(NamedTuple):
    """A company with its agents and cases."""

    name: str
    agents: Mapping[str, Mapping[str, Any]]
    cases: Sequence[Case]


def trades() -> list[Trade]:
    found = yaml.safe_load(DATA.read_text("utf-8"))
    return [Trade(each["trade"], each["agents"], [Case(**case) for case in each["cases"]]) for each in found]


async def selections(trade: Trade, folder: Path, *, routing: bool) -> list[Selection]:
    """Returns the decision for each case, each of another user, in the policy `default`."""
    agents = [
        agent(name=name, description=about["about"], examples=about["say"])(_answer) for name, about in trade.agents.items()
    ]
    front = agent(name="front", description="Greets.", children=agents)(_answer)
    url = f"sqlite:///{folder / trade.name.replace(' ', '-')}-{routing}.db"
    runner = Runner(front, store=url, memory=MemoryConfig(entities="long", routing=routing))
    try:
        await runner.cascade.prepare()
        made = []
        for number, case in enumerate(trade.cases):
            user = f"user{number}"
            first = await runner.start(
                case.before, user=user, session="before", context=MessageContext(direct_agent_id=case.noted_by)
            )
            await first.result()
            made.append(await runner.select(case.now, user=user))
        return made
    finally:
        await runner.close()


async def _answer() -> str:
    return "Noted."


def right(trade: Trade, made: Sequence[Selection]) -> list[bool]:
    return [
        selection.outcome == "chosen" and selection.agent == case.right
        for case, selection in zip(trade.cases, made, strict=True)
    ]


async def _measured(folder: Path) -> list[Figure]:
    counts = {(routing, other): [0, 0] for routing in (True, False) for other in (False, True)}
    found = trades()
    with progress("Routing by memory", 2 * len(found)) as step:
        for trade in found:
            for routing in (True, False):
                for case, is_right in zip(
                    trade.cases, right(trade, await selections(trade, folder, routing=routing)), strict=True
                ):
                    count = counts[routing, case.right != case.noted_by]
                    count[0] += is_right
                    count[1] += 1
                step(trade.name)
    shares = {key: 100 * good / total for key, (good, total) in counts.items()}
    both = {routing: (shares[routing, False] + shares[routing, True]) / 2 for routing in (True, False)}
    return [
        Figure("who noted it is right, with memory", f"{shares[True, False]:.1f} %", f"{shares[False, False]:.1f} %"),
        Figure("another agent is right, with memory", f"{shares[True, True]:.1f} %", f"{shares[False, True]:.1f} %"),
        Figure("both, with memory", f"{both[True]:.1f} %", f"{both[False]:.1f} %", f"≥ {FLOOR:g} %", both[True] >= FLOOR),
    ]


def figures(folder: Path) -> list[Figure]:
    """Returns the share of right decisions, with memory and without."""
    return asyncio.run(_measured(folder))
