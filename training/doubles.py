"""Measures how well double requests are recognised: python training/doubles.py [dev|apart] [--out DIR] [--errors]

It writes the cases and examples of each company for `turnwise eval CASES --examples FILE --history true` to DIR.
"""

import argparse
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

from contextual_talks import company

from turnwise.learning.cases import Case, Turn, read_examples
from turnwise.learning.evaluate import evaluate
from turnwise.learning.measures import Outcome
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy

DOUBLES = Path(__file__).with_name("doubles")
HALVES = {
    "dev": ("bakery", "clinic", "landlord", "telecom", "vet"),
    "apart": ("carhouse", "homeassistant", "railway", "utility", "wedding"),
}


def cases(name: str) -> list[Case]:
    """Reads the double requests of a company."""
    lines = (DOUBLES / f"{name}.txt").read_text("utf-8").splitlines()
    return [Case(tuple(_turns(line)), f"{name}-{number}", f"{name}:{number}") for number, line in enumerate(lines, 1)]


def _turns(line: str) -> Iterator[Turn]:
    who, *parts = (part.strip() for part in line.split("::"))
    mark = next((mark for mark in (" > ", " + ") if mark in who), None)
    agent, *also = who.split(mark) if mark else [who]
    if len(parts) == 3:
        yield Turn("", parts[0], agent)
    yield Turn(parts[1] if len(parts) == 3 else "", parts[-1], agent, tuple(also), {"kind": mark.strip() if mark else "one"})


def write(name: str, folder: Path) -> None:
    """Writes the files for `turnwise eval`."""
    folder.mkdir(parents=True, exist_ok=True)
    agents = company(name)["agents"]
    lines = [{"agent": each["name"], "description": each["description"]} for each in agents]
    lines += [{"text": text, "agent": each["name"]} for each in agents for text in each["examples"]]
    (folder / f"{name}.agents.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    dialogues = []
    for case in cases(name):
        turns = [
            {"system": turn.system, "user": turn.user, "agent": turn.agent}
            | ({} if turn.also is None else {"also": turn.also, **turn.groups})
            for turn in case.turns
        ]
        dialogues.append({"id": case.dialogue, "turns": turns})
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in dialogues), "utf-8")


async def measure(names: tuple[str, ...], folder: Path, *, shown: bool) -> None:
    """Prints recall and precision of the further agents, in all and by kind."""
    outcomes: list[Outcome] = []
    for name in names:
        write(name, folder)
        cascade = Cascade(named_policy("default"), read_examples(folder / f"{name}.agents.jsonl"))
        await cascade.prepare()
        outcomes += await evaluate(cascade, cases(name), history="true")
    labelled = [each for each in outcomes if each.also_expected is not None]
    for kind in ("", ">", "+", "one"):
        group = [each for each in labelled if kind in ("", each.groups["kind"])]
        wanted = [(each, agent) for each in group for agent in each.also_expected or ()]
        named = [(each, agent) for each in group for agent in (each.agent, *each.also) if agent != each.expected]
        found = sum(agent in (each.agent, *each.also) for each, agent in wanted)
        right = sum(agent in (each.also_expected or ()) for each, agent in named)
        print(
            f"{kind or 'all':>4} {len(group):>4} messages, recall {found} of {len(wanted)}, precision {right} of {len(named)}"
        )
    for each in labelled if shown else ():
        named_also = {each.agent, *each.also} - {each.expected}
        if named_also != set(each.also_expected or ()):
            expected, got = f"{each.expected} and {each.also_expected}", f"{each.agent} and {each.also}"
            print(f"  {each.text!r}: {expected}, got {got}; {each.reason}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("half", nargs="?", default="dev", choices=sorted(HALVES))
    parser.add_argument("--out", type=Path, default=Path("doubles"), help="the folder of the written cases")
    parser.add_argument("--errors", action="store_true", help="show the messages that were read wrong")
    options = parser.parse_args()
    asyncio.run(measure(HALVES[options.half], options.out, shown=options.errors))
