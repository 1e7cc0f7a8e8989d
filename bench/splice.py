"""Makes dialogues with digressions from plain ones: a second matter opens inside the first, which is taken up again."""

import random
from collections.abc import Sequence

from turnwise.learning.cases import Case, Turn

LEAVE = ("By the way, ", "Before that, ", "Wait, one thing first: ", "Something else: ", "Oh, and ", "While I think of it, ")
BACK = (
    "Okay, back to the other thing. ",
    "Good. Where were we? ",
    "Right, as for the first thing: ",
    "So, ",
    "Now back to what you asked. ",
)
"""Bridges of half of the dialogues. No training data has them."""
PART, PENDING, BRIDGE = "part", "pending", "bridge"
"""Keys of the turns' groups. Parts: a, digress (first turn of the second matter), b, return (first turn back), a2."""
_LAST_REPLY = "Done. Is there anything else?"
_FEWEST, _LONGEST, _BRIDGED, _RETURNING = 3, 5, 0.5, 0.8


def splice(dialogues: Sequence[Case], count: int, seed: int = 1) -> list[Case]:
    """Returns that many dialogues, each made of the openings of two with different agents."""
    chance = random.Random(seed)
    pool = [(case.dialogue, turns) for case in dialogues if len(turns := _opening(case)) >= _FEWEST]
    made: list[Case] = []
    while len(made) < count:
        (first, a), (second, b) = chance.sample(pool, 2)
        if a[0].agent != b[0].agent:
            made.append(Case(tuple(_inside(a, b, chance)), f"{first}+{second}", f"{first}+{second}"))
    return made


def _opening(case: Case) -> list[Turn]:
    """The dialogue's turns before the agent changes; empty if the first turn has no agent."""
    turns: list[Turn] = []
    for turn in case.turns:
        if turn.agent is None or turn.agent != case.turns[0].agent:
            break
        turns.append(turn)
    return turns


def _inside(a: Sequence[Turn], b: Sequence[Turn], chance: random.Random) -> list[Turn]:
    """The second matter inside the first. The reply that the first one was left with opens the second."""
    cut = chance.randrange(1, len(a) - 1)
    end = chance.randrange(2, min(len(b), _LONGEST) + 1)
    left = a[cut].system
    bridged, returns = chance.random() < _BRIDGED, chance.random() < _RETURNING
    kind = {PENDING: str(left.rstrip().endswith("?")).lower(), BRIDGE: str(bridged).lower()}
    turns = [_part(turn, "a", kind) for turn in a[:cut]]
    for number, turn in enumerate(b[:end]):
        text = _bridged(turn.user, LEAVE, chance) if number == 0 and bridged else turn.user
        part = "b" if number else "digress"
        turns.append(_part(turn._replace(system=turn.system if number else left, user=text), part, kind))
    if returns:
        reply = b[end].system if end < len(b) else _LAST_REPLY
        for number, turn in enumerate(a[cut:]):
            text = _bridged(turn.user, BACK, chance) if number == 0 and bridged else turn.user
            part = "a2" if number else "return"
            turns.append(_part(turn._replace(system=turn.system if number else reply, user=text), part, kind))
    return turns


def _part(turn: Turn, part: str, kind: dict[str, str]) -> Turn:
    return turn._replace(groups={PART: part, **kind})


def _bridged(text: str, bridges: Sequence[str], chance: random.Random) -> str:
    bridge = chance.choice(bridges)
    starts_lower = text[:1].isalpha() and not text.startswith(("I ", "I'"))
    return bridge + (text[0].lower() + text[1:] if starts_lower else text)
