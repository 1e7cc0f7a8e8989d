"""One state for all that a decision reads (behaviour E1)."""

import asyncio

from turnwise.selection.reader import current_snapshot, snapshot

ONE, OTHER = object(), object()


def test_a_hold_is_its_owners_and_ends_with_the_block() -> None:
    assert current_snapshot(ONE) is None
    with snapshot(ONE, None) as hold:
        assert current_snapshot(ONE) is hold
        assert current_snapshot(OTHER) is None
        assert hold.fingerprint == ""
    assert current_snapshot(ONE) is None


def test_inside_another_of_its_owner_it_is_the_same() -> None:
    """A selector that asks a cascade with the same meaning is part of the decision."""
    with snapshot(ONE, None) as outer:
        with snapshot(OTHER, None) as between:
            assert current_snapshot(OTHER) is between
        with snapshot(ONE, None) as inner:
            assert inner is outer
        assert current_snapshot(ONE) is outer


async def test_tasks_begun_inside_share_it_while_it_lasts() -> None:
    ended = asyncio.Event()

    async def later() -> bool:
        await ended.wait()
        return current_snapshot(ONE) is None

    async def now() -> bool:
        return current_snapshot(ONE) is hold

    with snapshot(ONE, None) as hold:
        assert await asyncio.create_task(now())
        outliving = asyncio.create_task(later())
        await asyncio.sleep(0)
    ended.set()
    assert await outliving
