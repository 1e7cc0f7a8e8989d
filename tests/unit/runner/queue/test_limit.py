import asyncio

from turnwise.runner.queue.limit import ConcurrencyLimit


async def enter(gate: ConcurrencyLimit) -> None:
    """Enters in one's turn; who is cancelled gives up."""
    place = gate.line_up()
    try:
        await place
    except asyncio.CancelledError:
        gate.give_up(place)
        raise


async def test_at_most_so_many_are_in_at_once_and_the_line_is_kept() -> None:
    """A bounded number of running invocations, first come, first served."""
    gate, order, most = ConcurrencyLimit(2), [], 0
    inside = 0

    async def one(name: int) -> None:
        nonlocal inside, most
        await enter(gate)
        inside += 1
        most = max(most, inside)
        order.append(name)
        await asyncio.sleep(0)
        inside -= 1
        gate.leave()

    await asyncio.gather(*(one(name) for name in range(20)))
    assert (most, order) == (2, list(range(20)))
    assert gate.is_open


async def test_who_gives_up_waiting_keeps_the_place_from_nobody() -> None:
    gate = ConcurrencyLimit(1)
    assert gate.try_enter()
    assert not gate.try_enter()
    impatient = asyncio.create_task(enter(gate))
    patient = asyncio.create_task(enter(gate))
    await asyncio.sleep(0)
    assert gate.waiting == 2
    impatient.cancel()
    gate.leave()
    await patient
    assert not gate.is_open
    gate.leave()
    assert gate.is_open


async def test_a_place_given_to_who_gives_up_at_that_moment_goes_to_the_next() -> None:
    gate = ConcurrencyLimit(1)
    gate.try_enter()
    impatient, patient = asyncio.create_task(enter(gate)), asyncio.create_task(enter(gate))
    await asyncio.sleep(0)
    gate.leave()
    impatient.cancel()
    await patient
    gate.leave()
    assert gate.is_open


def test_event_loops_share_it() -> None:
    gate = ConcurrencyLimit(1)
    gate.try_enter()

    async def through() -> None:
        await enter(gate)
        gate.leave()

    async def leave(waiting: asyncio.Task[None]) -> None:
        await asyncio.to_thread(gate.leave)
        await waiting

    async def both() -> None:
        waiting = asyncio.create_task(through())
        await asyncio.sleep(0)
        await leave(waiting)

    asyncio.run(both())
    asyncio.run(through())
    assert gate.is_open


async def test_who_gives_up_a_place_that_it_has_makes_room() -> None:
    gate = ConcurrencyLimit(1)
    mine = gate.line_up()
    assert mine.done()
    gate.give_up(mine)
    assert (gate.is_open, gate.waiting) == (True, 0)
