"""Dialogues with digressions, made from plain ones: a second matter opens inside the first, and the first is taken up again.

Half of the changes have a bridge, such as "one more thing"; the others come without a word.
"""

import random
from collections.abc import Sequence

import contextual_phrases as say
from contextual_dialogues import NOBODY, SMALLTALK, STAY, Dialogue, Step

_LONGEST, _BRIDGED, _RETURNING, _TWICE = 4, 0.5, 0.8, 0.3


def spliced(dialogues: Sequence[Dialogue], count: int, chance: random.Random) -> list[Dialogue]:
    """Returns that many dialogues; fewer when hardly any matters are long enough to be interrupted."""
    matters = [run for dialogue in dialogues for run in _matters(dialogue)]
    long = [run for run in matters if len(run) >= 3]
    found: list[Dialogue] = []
    for _ in range(20 * count):
        if len(found) == count or not long:
            break
        first, others = chance.choice(long), chance.sample(matters, min(2, len(matters)))
        others = [run for run in others if run[0].label != first[0].label]
        if others:
            found.append(Dialogue(tuple(_interrupted(first, others, chance))))
    return found


def _matters(dialogue: Dialogue) -> list[list[Step]]:
    """The runs of at least two steps with one agent."""
    runs: list[list[Step]] = []
    for step in dialogue.steps:
        if runs and runs[-1][-1].label == step.label:
            runs[-1].append(step)
        else:
            runs.append([step])
    return [run for run in runs if run[0].label not in (None, NOBODY, SMALLTALK, STAY) and len(run) >= 2]


def _interrupted(first: Sequence[Step], others: Sequence[Sequence[Step]], chance: random.Random) -> list[Step]:
    """The first matter with one or two others inside it."""
    cut = chance.randrange(1, len(first) - 1)
    steps = [first[0]._replace(system="", owner=None), *first[1:cut]]
    reply, owner = first[cut].system, first[0].label
    for other in others if chance.random() < _TWICE else others[:1]:
        end = chance.randrange(1, min(len(other), _LONGEST) + 1)
        steps += _after(reply, owner, other[:end], say.PREFIXES, chance)
        reply, owner = other[end].system if end < len(other) else _closing(chance), other[0].label
    if chance.random() < _RETURNING:
        steps += _after(reply, owner, first[cut:], say.RETURNS_WITH, chance)
    return steps


def _after(reply: str, owner: str | None, steps: Sequence[Step], bridges: Sequence[str], chance: random.Random) -> list[Step]:
    """The steps as they follow another agent's reply."""
    text = (chance.choice(bridges) if chance.random() < _BRIDGED else "") + steps[0].user
    return [steps[0]._replace(system=reply, owner=owner, user=text), *(step._replace(owner=step.label) for step in steps[1:])]


def _closing(chance: random.Random) -> str:
    done = chance.choice(say.DONE).format(topic="that", slot="number")
    return f"{done} {chance.choice(say.OFFERS)}" if chance.random() < 0.5 else done
