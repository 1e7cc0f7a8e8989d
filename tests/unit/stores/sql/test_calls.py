import asyncio

import pytest

from turnwise.stores.sql.calls import Call, deliver


def fail(_connection: object) -> int:
    raise KeyError("x")


async def test_results_and_errors_come_back() -> None:
    good: Call[int] = Call(lambda _: 3)
    bad: Call[int] = Call(fail)
    assert good.run(None)  # type: ignore[arg-type]
    assert not bad.run(None)  # type: ignore[arg-type]
    deliver([good, bad])
    assert await good.future == 3
    with pytest.raises(KeyError):
        await bad.future


async def test_a_second_run_forgets_the_first() -> None:
    runs = []

    def fail_once(connection: object) -> int:
        runs.append(connection)
        return fail(connection) if len(runs) == 1 else 4

    call: Call[int] = Call(fail_once)
    assert not call.run(None)  # type: ignore[arg-type]
    assert call.run(None)  # type: ignore[arg-type]
    deliver([call])
    assert await call.future == 4


async def test_a_waiter_that_was_cancelled_is_left_alone() -> None:
    call: Call[int] = Call(lambda _: 3)
    call.future.cancel()
    call.run(None)  # type: ignore[arg-type]
    deliver([call])
    await asyncio.sleep(0)
    assert call.future.cancelled()


def test_a_loop_that_was_closed_is_left_alone() -> None:
    async def make() -> Call[int]:
        return Call(lambda _: 3)

    call = asyncio.run(make())
    call.run(None)  # type: ignore[arg-type]
    deliver([call])
