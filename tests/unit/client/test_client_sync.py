"""The client's sync door."""

from collections.abc import AsyncIterator

import pytest

from turnwise.client.client import Sync
from turnwise.facts.errors import ConfigError


async def one() -> int:
    return 1


class Counting:
    """Counts up, and knows whether it was ended."""

    def __init__(self) -> None:
        self.ended = False

    async def numbers(self) -> AsyncIterator[int]:
        try:
            for number in range(3):
                yield number
        finally:
            self.ended = True


def test_a_result() -> None:
    assert Sync().result(one()) == 1


def test_each_item_as_it_comes() -> None:
    counting = Counting()
    numbers = Sync().each(counting.numbers())
    assert next(numbers) == 0
    assert not counting.ended
    assert list(numbers) == [1, 2]
    assert counting.ended


def test_who_leaves_early_ends_the_reading() -> None:
    counting, sync = Counting(), Sync()
    for number in (numbers := sync.each(counting.numbers())):
        assert number == 0
        break
    numbers.close()  # type: ignore[attr-defined]
    assert counting.ended


def test_what_goes_wrong_is_raised() -> None:
    async def failing() -> AsyncIterator[int]:
        yield 1
        raise ValueError("as asked")

    numbers = Sync().each(failing())
    assert next(numbers) == 1
    with pytest.raises(ValueError, match="as asked"):
        next(numbers)


async def test_a_loop_has_its_own_door() -> None:
    with pytest.raises(ConfigError, match="inside an event loop"):
        Sync().result(one())
    with pytest.raises(ConfigError, match="inside an event loop"):
        next(Sync().each(Counting().numbers()))
