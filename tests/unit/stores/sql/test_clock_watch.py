"""A database's clock that is set, noticed by one that only grows."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, create_engine

from turnwise.stores.sql.key_store import DRIFT, TOLERANCE_SECONDS, ClockWatch

HOUR = 3600.0
LEASE_SECONDS = 15.0
UNIX_EPOCH = 2_440_587.5


class Clocks:
    """The database's clock, which may be set, and one that only grows. Both stand still unless they are moved."""

    def __init__(self) -> None:
        self.database, self.steady = 1_000_000.0, 50.0

    def pass_by(self, seconds: float) -> None:
        self.database += seconds
        self.steady += seconds


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def connection(clocks: Clocks) -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.create_function("julianday", 1, lambda _: UNIX_EPOCH + clocks.database / 86_400)
        yield connection
    engine.dispose()


def spares(watch: ClockWatch, connection: Connection) -> bool:
    return watch.moved(connection, LEASE_SECONDS) != 0.0


@pytest.mark.parametrize("jump", [HOUR, -HOUR, LEASE_SECONDS + 1])
def test_a_window_is_spared_as_long_as_it_lasts_after_the_clock_was_set(
    clocks: Clocks, connection: Connection, jump: float
) -> None:
    """A33"""
    watch = ClockWatch(lambda: clocks.steady)
    watch.read(connection)
    clocks.pass_by(5)
    clocks.database += jump
    assert spares(watch, connection)
    clocks.pass_by(LEASE_SECONDS - 1)
    assert spares(watch, connection)
    clocks.pass_by(2)
    assert not spares(watch, connection)


def test_a_window_that_just_ran_out_is_not_spared(clocks: Clocks, connection: Connection) -> None:
    watch = ClockWatch(lambda: clocks.steady)
    for _ in range(100):
        watch.read(connection)
        clocks.pass_by(1)
    assert not spares(watch, connection)
    clocks.pass_by(3 * HOUR)  # nobody looked for long
    assert not spares(watch, connection)


def test_who_never_looked_before_spares_nothing(clocks: Clocks, connection: Connection) -> None:
    clocks.database += HOUR
    assert not spares(ClockWatch(lambda: clocks.steady), connection)


def test_clocks_may_go_a_little_differently(clocks: Clocks, connection: Connection) -> None:
    watch = ClockWatch(lambda: clocks.steady)
    watch.read(connection)
    clocks.pass_by(HOUR)
    clocks.database += DRIFT * HOUR
    assert not spares(watch, connection)
    clocks.database += TOLERANCE_SECONDS * 0.9
    assert not spares(watch, connection)
    clocks.database += TOLERANCE_SECONDS * 1.1
    assert spares(watch, connection)


def test_a_clock_that_is_set_twice_is_noticed_twice(clocks: Clocks, connection: Connection) -> None:
    watch = ClockWatch(lambda: clocks.steady)
    watch.read(connection)
    for jump in (HOUR, -HOUR, HOUR):
        clocks.database += jump
        assert spares(watch, connection)
        clocks.pass_by(LEASE_SECONDS + 1)
        assert not spares(watch, connection)
