"""Where in a turn something is said: so it is found there, and nowhere else, when the turn is run again."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Spot(NamedTuple):
    """branch: that of an agent's run. step: the key of the recorded step in whose work it is said, empty outside of steps."""

    branch: str
    step: str = ""


_AT_WORK: ContextVar[tuple[Spot, ...]] = ContextVar("turnwise_spots", default=())


def spot_of(branch: str) -> Spot:
    """Where the run on that branch is, as far as whoever asks is part of it: in the innermost step that is being done."""
    return next((spot for spot in reversed(_AT_WORK.get()) if spot.branch == branch), Spot(branch))


@contextmanager
def inside(spot: Spot) -> Iterator[None]:
    """Whoever works in the block, in whatever thread or task that it begins, is on that spot."""
    token = _AT_WORK.set((*_AT_WORK.get(), spot))
    try:
        yield
    finally:
        _AT_WORK.reset(token)
