"""The conversations in training/talks: companies with agents and dialogues that were written for this project."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contextual_companies import Drill
from contextual_dialogues import NOBODY, SMALLTALK, Dialogue, Step, roughened

TALKS = Path(__file__).with_name("talks")
KNOWN_BY = ((99, True, 1.0), (5, False, 1.0), (3, True, 1.0), (0, True, 0.5))
"""Variants of the drills: the number of examples, whether there are descriptions, and the drill's weight."""
SLIPS = 0.15
_LABELS = {"@smalltalk": SMALLTALK, "@nobody": NOBODY}


def companies() -> list[str]:
    return sorted(path.stem for path in TALKS.glob("*.json"))


def company(name: str) -> dict[str, Any]:
    """Reads one company. agents: name, description, examples. dialogues: turns of the reply before the message, the message,
    and the right agent: a name, @smalltalk, @nobody, or null if careful people would disagree.
    """
    found: dict[str, Any] = json.loads((TALKS / f"{name}.json").read_text("utf-8"))
    return found


def drills(names: Sequence[str], weight: float) -> Iterator[Drill]:
    """Each company in all variants, with typing errors in some messages."""
    for name in names:
        for examples, described, share in KNOWN_BY:
            found = drill(name, examples, described=described, weight=weight * share)
            chance = random.Random(found.name)
            yield found._replace(dialogues=[_slipped(talk, chance) for talk in found.dialogues])


def drill(name: str, examples: int, *, described: bool, weight: float = 1.0) -> Drill:
    found = company(name)
    agents = found["agents"]
    talks = [Dialogue(tuple(_steps(each["turns"]))) for each in found["dialogues"]]
    lines: dict[str, list[str]] = {agent["name"]: [] for agent in agents}
    for talk in talks:
        for step in talk.steps:
            if step.owner is not None:
                lines[step.owner].append(step.system)
    return Drill(
        f"{name}: {len(agents)} × {examples}{' described' if described else ''}",
        {agent["name"]: agent["examples"][:examples] for agent in agents},
        talks,
        lines,
        weight,
        {agent["name"]: agent["description"] for agent in agents} if described else {},
        f"third-{companies().index(name) % 3}",
    )


def _slipped(talk: Dialogue, chance: random.Random) -> Dialogue:
    steps = [step._replace(user=roughened(step.user, chance)) if chance.random() < SLIPS else step for step in talk.steps]
    return talk._replace(steps=tuple(steps))


def _steps(turns: Sequence[Mapping[str, Any]]) -> Iterator[Step]:
    owner: str | None = None
    for turn in turns:
        label = turn["agent"]
        yield Step(turn["system"], turn["user"], _LABELS.get(label, label), owner)
        if label is not None and label not in _LABELS:
            owner = label
