import asyncio

from turnwise.runner.queue.queue import ConcurrencyLimit


async def enter(limit: ConcurrencyLimit) -> None:
    """Enters in one's turn; who is cancelled gives up."""
    place = limit.reserve()
    try:
        await place
    except asyncio.CancelledError:
        limit.cancel(place)
        raise


async def test_at_most_so_many_are_in_at_once_and_the_line_is_kept() -> None:
    """A bounded number of running invocations, first come, first served."""
    limit, order, most = ConcurrencyLimit(2), [], 0
    inside = 0

    async def one(name: int) -> None:
        nonlocal inside, most
        await enter(limit)
        inside += 1
        most = max(most, inside)
        order.append(name)
        await asyncio.sleep(0)
        inside -= 1
        limit.release()

    await asyncio.gather(*(one(name) for name in range(20)))
    assert (most, order) == (2, list(range(20)))
    assert limit.has_room


async def test_who_gives_up_waiting_keeps_the_place_from_nobody() -> None:
    limit = ConcurrencyLimit(1)
    assert limit.try_enter()
    assert not limit.try_enter()
    impatient = asyncio.create_task(enter(limit))
    patient = asyncio.create_task(enter(limit))
    await asyncio.sleep(0)
    assert limit.waiting == 2
    impatient.cancel()
    limit.release()
    await patient
    assert not limit.has_room
    limit.release()
    assert limit.has_room


async def test_a_place_given_to_who_gives_up_at_that_moment_goes_to_the_next() -> None:
    limit = ConcurrencyLimit(1)
    limit.try_enter()
    impatient, patient = asyncio.create_task(enter(limit)), asyncio.create_task(enter(limit))
    await asyncio.sleep(0)
    limit.release()
    impatient.cancel()
    await patient
    limit.release()
    assert limit.has_room


def test_event_loops_share_it() -> None:
    limit = ConcurrencyLimit(1)
    limit.try_enter()

    async def through() -> None:
        await enter(limit)
        limit.release()

    async def leave(waiting: asyncio.Task[None]) -> None:
        await asyncio.to_thread(limit.release)
        await waiting

    async def both() -> None:
        waiting = asyncio.create_task(through())
        await asyncio.sleep(0)
        await leave(waiting)

    asyncio.run(both())
    asyncio.run(through())
    assert limit.has_room


async def test_who_gives_up_a_place_that_it_has_makes_room() -> None:
    limit = ConcurrencyLimit(1)
    mine = limit.reserve()
    assert mine.done()
    limit.cancel(mine)
    assert (limit.has_room, limit.waiting) == (True, 0)
