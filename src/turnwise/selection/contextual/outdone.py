"""Whom another candidate outdoes in all that the message shows: no mixture of circumstances may put him first."""

import math
from typing import NamedTuple

import numpy as np

from turnwise.selection.contextual.situation import Situation

_LIKELY, _TIMES = math.log(0.5), math.log(5.0)
_ALIKE = 0.4
_PLAIN, _FOREIGN, _SAME = math.log(0.95), math.log(0.03), 0.8


class Outdone(NamedTuple):
    """place: a candidate. by: one whom the message speaks for so much more clearly; lead: by how much, in log-probability."""

    place: int
    by: int
    lead: float


def outdone(situation: Situation) -> tuple[Outdone, ...]:
    """The candidates whom another outdoes: five times as likely by the message, and behind in nothing else it shows.

    The active agent only by a plain request to somebody else, since staying rests on more than the message. Who waits for a
    reply, or was offered to the user, only by one of whom the same is true.
    """
    turn, active = situation.turn, situation.place(situation.turn.active)
    if active is None or len(situation.candidates) < 2:
        return ()
    named = situation.amounts(turn.named)
    shown = np.stack([
        situation.similarities,
        named,
        situation.amounts(turn.hits),
        situation.marks(turn.offered),
        situation.marks((turn.awaiting,) if turn.awaiting else ()),
    ])  # fmt: skip
    found = []
    for better in np.flatnonzero(situation.message >= _LIKELY).tolist():
        clear = situation.similarities[better] >= _ALIKE
        weaker = situation.message <= situation.message[better] - _TIMES
        weaker &= (shown <= shown[:, [better]]).all(axis=0) & (clear | (named < named[better]))
        weaker[active] = weaker[active] and _is_plain(situation, active, better)
        leads = situation.message[better] - situation.message
        found += [Outdone(place, better, float(leads[place])) for place in np.flatnonzero(weaker).tolist()]
    return tuple(found)


def _is_plain(situation: Situation, active: int, other: int) -> bool:
    """Whether the message is plainly a request to another than the active agent, whatever is said around it."""
    seen = situation.turn.wording.clues
    asks = seen.asks or seen.imperative or seen.question_word or seen.question_mark
    return bool(
        asks
        and seen.content >= 1
        and situation.message[other] >= _PLAIN
        and situation.message[active] <= _FOREIGN
        and situation.similarities[other] >= _SAME
    )
