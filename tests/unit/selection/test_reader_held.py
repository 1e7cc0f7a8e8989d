"""One state for all that a decision reads (behaviour E1)."""

import asyncio

from turnwise.selection.reader import held, hold_of

ONE, OTHER = object(), object()


def test_a_hold_is_its_owners_and_ends_with_the_block() -> None:
    assert hold_of(ONE) is None
    with held(ONE, None) as hold:
        assert hold_of(ONE) is hold
        assert hold_of(OTHER) is None
        assert hold.fingerprint == ""
    assert hold_of(ONE) is None


def test_inside_another_of_its_owner_it_is_the_same() -> None:
    """A selector that asks a cascade with the same meaning is part of the decision."""
    with held(ONE, None) as outer:
        with held(OTHER, None) as between:
            assert hold_of(OTHER) is between
        with held(ONE, None) as inner:
            assert inner is outer
        assert hold_of(ONE) is outer


async def test_tasks_begun_inside_share_it_while_it_lasts() -> None:
    ended = asyncio.Event()

    async def later() -> bool:
        await ended.wait()
        return hold_of(ONE) is None

    async def now() -> bool:
        return hold_of(ONE) is hold

    with held(ONE, None) as hold:
        assert await asyncio.create_task(now())
        outliving = asyncio.create_task(later())
        await asyncio.sleep(0)
    ended.set()
    assert await outliving
