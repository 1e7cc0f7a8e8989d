import asyncio

import pytest

from turnwise.tools.threads import in_thread


async def test_what_a_function_gives_and_raises_comes_back() -> None:
    assert await in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 7, 0)


async def test_a_stop_of_an_iteration_does_not_hang() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(in_thread(next, iter(())), 30)
