"""Measures small apps by sets of acceptable agents: python training/small_apps.py [COMPANY…] [--errors]"""

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.learning.cases import Case, Turn
from turnwise.learning.evaluate import History, evaluate
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy

APPS = Path(__file__).with_name("small_apps")
APART = ("library",)
"""Companies that nothing is fitted to."""
_ROOT = "desk"


class SmallApp(NamedTuple):
    """A company: its agents, and its conversations with the acceptable agents of each turn."""

    tree: AgentTree
    cases: list[Case]
    acceptable: list[frozenset[str]]


def small_app(name: str) -> SmallApp:
    """Reads a company."""
    cards = [AgentCard(name=_ROOT)]
    talks: list[list[Turn]] = []
    acceptable: list[frozenset[str]] = []
    for line in (APPS / f"{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("@"):
            agent, description, examples = (part.strip() for part in line[1:].split("|"))
            texts = tuple(text.strip() for text in examples.split(";"))
            cards.append(AgentCard(name=agent, parent=_ROOT, description=description, examples=texts))
        elif line.startswith("#"):
            talks.append([])
        elif line.startswith("-"):
            system, rest = line[1:].split(">>")
            user, agents = rest.split("=>")
            names = [each.strip() for each in agents.split(",")]
            talks[-1].append(Turn(system.strip(), user.strip(), names[0]))
            acceptable.append(frozenset(names))
    return SmallApp(AgentTree(cards), [Case(tuple(talk), f"{name}-{number}") for number, talk in enumerate(talks)], acceptable)


async def measure(name: str, *, shown: bool) -> Iterator[str]:
    """Returns lines with the shares of acceptable turns, by own and by true history."""
    app, lines = small_app(name), []
    cascade = Cascade(named_policy("default"), app.tree)
    await cascade.prepare()
    histories: Sequence[History] = ("own", "true")
    for history in histories:
        outcomes = await evaluate(cascade, app.cases, history=history)
        good = [each.agent in names for each, names in zip(outcomes, app.acceptable, strict=True)]
        lines.append(f"{name:>15} {history:>5}: {sum(good)} of {len(good)}{' (kept apart)' if name in APART else ''}")
        if shown and history == "true":
            wrong = [each for each, is_good in zip(outcomes, good, strict=True) if not is_good]
            lines += [f"  {each.text!r}: {each.expected}, got {each.agent}: {each.reason}" for each in wrong]
    return iter(lines)


async def main(names: Sequence[str], *, shown: bool) -> None:
    for name in names or sorted(path.stem for path in APPS.glob("*.txt")):
        for line in await measure(name, shown=shown):
            print(line, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="COMPANY", help="the companies; all of them without")
    parser.add_argument("--errors", action="store_true", help="show the turns that no acceptable agent got")
    options = parser.parse_args()
    asyncio.run(main(options.names, shown=options.errors))
