"""The ids of an invocation's events (A19, A34)."""

from turnwise.runner.record.events import EventIds
from turnwise.testing.fakes import CountingIssuer


def test_an_issued_id_is_used_once() -> None:
    """A34: the second event that brings it gets another."""
    ids = EventIds(CountingIssuer())
    mine = ids.issue()
    assert ids.own(mine, partial=True) == mine
    assert ids.own(mine, partial=False) == mine
    again = ids.own(mine, partial=False)
    assert again != mine
    assert ids.own(mine, partial=False) not in (mine, again)


def test_a_foreign_id_is_replaced_by_one_for_pieces_and_whole() -> None:
    """A19."""
    ids = EventIds(CountingIssuer())
    piece = ids.own("greeting", partial=True)
    assert piece != "greeting"
    assert ids.own("other", partial=True) != piece
    assert ids.own("greeting", partial=True) == piece
    assert ids.own("greeting", partial=False) == piece
    assert ids.own("greeting", partial=True) != piece
