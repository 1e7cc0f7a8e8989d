"""One state for all that a decision reads, whatever is swapped in meanwhile (behaviour E1)."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from turnwise.selection.served import Served


class Hold:
    """What one decision reads by. served: None until something is read, when nothing was ready as it began."""

    def __init__(self, owner: object, served: Served | None) -> None:
        self.owner, self.served = owner, served
        self.is_over = False

    @property
    def fingerprint(self) -> str:
        """Identifies the state; empty when nothing was ready and nothing was read."""
        return self.served.fingerprint if self.served else ""


# Selectors are asked with a request that is plain data, and may be anybody's: the state goes to their reader past them.
_HOLD: ContextVar[Hold | None] = ContextVar("turnwise_hold", default=None)


@contextmanager
def held(owner: object, served: Served | None) -> Iterator[Hold]:
    """Inside, in this task and those it starts, `hold_of(owner)` is this hold; inside another hold of the owner, that one."""
    outer = hold_of(owner)
    if outer is not None:
        yield outer
        return
    hold = Hold(owner, served)
    token = _HOLD.set(hold)
    try:
        yield hold
    finally:
        hold.is_over = True  # a task that outlives the decision should not read by its state for ever
        _HOLD.reset(token)


def hold_of(owner: object) -> Hold | None:
    """The hold of the decision that is being made here, if it is one of that owner; else None."""
    hold = _HOLD.get()
    return hold if hold is not None and hold.owner is owner and not hold.is_over else None
