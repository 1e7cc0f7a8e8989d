"""How long what may pass is tried again. (Nothing here waits longer than a moment, or looks at a clock.)"""

import pytest

from turnwise.client.errors import TEMPORARY, RetryBudget, Unreached, was_refused
from turnwise.facts.errors import Closing, Forbidden, SessionBusy, StoreUnavailable, TooMany, TurnwiseError


class Known:
    def __init__(self, heard: bool = True) -> None:
        self.heard = heard


SOON = TooMany("Later.", retry_after=0.0)
UNSENT = Unreached("Nobody there.", sent=False)


async def test_without_patience_nothing_is_tried_again() -> None:
    assert not await RetryBudget(0, Known()).wait_for_retry(StoreUnavailable("Gone."))


async def test_it_is_over_at_once_when_it_is_asked_to_wait_longer() -> None:
    assert not await RetryBudget(60, Known()).wait_for_retry(TooMany("Later.", retry_after=61))
    assert not await RetryBudget(60, Known()).wait_for_retry(Unreached("Gone.", retry_after=61))


async def test_each_wait_is_longer_until_something_comes() -> None:
    patience = RetryBudget(0.5, Known())
    gone = StoreUnavailable("Gone.")
    assert await patience.wait_for_retry(gone)  # 0.2 s
    assert not await patience.wait_for_retry(gone)  # 0.4 s more, of which there are not enough
    patience.restart()
    assert await patience.wait_for_retry(gone)


async def test_an_address_where_nobody_was_ever_heard_is_given_up_soon() -> None:
    later = Unreached("Nobody there.", sent=False, retry_after=3)
    assert not await RetryBudget(60, Known(heard=False)).wait_for_retry(later)
    assert await RetryBudget(60, Known(heard=False)).wait_for_retry(UNSENT)


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (SOON, True),
        (UNSENT, True),
        (Unreached("It broke off."), False),
        (StoreUnavailable("Locked."), False),
        (Closing("It leaves."), False),
    ],
)
def test_what_surely_was_not_done(error: TurnwiseError, refused: bool) -> None:
    """A process that is being stopped says so also to those whose request it is in the middle of."""
    assert was_refused(error) is refused
    assert isinstance(error, TEMPORARY)


@pytest.mark.parametrize("error", [SessionBusy("Busy."), Forbidden("No.")])
def test_what_does_not_pass_by_itself(error: TurnwiseError) -> None:
    assert not isinstance(error, TEMPORARY)


def test_out_of_reach_is_a_store_out_of_reach() -> None:
    assert isinstance(Unreached("Gone."), StoreUnavailable)
    assert Unreached("Gone.").code == "store.unavailable"
