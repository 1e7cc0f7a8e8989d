from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, bindparam, create_engine, insert, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, IntegrityError

from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.testing.postgres import new_postgres_database

THINGS = Table("things", MetaData(), Column("id", Integer, primary_key=True), Column("name", Text), Column("count", Integer))


def _postgresql() -> str:
    return make_url(new_postgres_database()).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


@pytest.fixture(params=["sqlite", "postgresql"])
def connection(request: pytest.FixtureRequest) -> Iterator[Connection]:
    engine = create_engine("sqlite://" if request.param == "sqlite" else _postgresql(), isolation_level="AUTOCOMMIT")
    with engine.connect() as opened:
        THINGS.metadata.create_all(opened)
        yield opened
    engine.dispose()


def test_a_hot_statement_does_what_the_plain_one_does(connection: Connection) -> None:
    rows = [{"id": n, "name": f"n{n}", "count": n} for n in range(3)]
    PreparedStatement(insert(THINGS).values({name: bindparam(name) for name in ("id", "name", "count")})).run_many(
        connection, rows
    )
    plain = select(THINGS.c.id, THINGS.c.name).where(THINGS.c.count >= bindparam("least"), THINGS.c.count < 10).order_by("id")
    hot = PreparedStatement(plain)
    for least in (0, 2, 9):
        assert hot.rows(connection, {"least": least}) == [tuple(row) for row in connection.execute(plain, {"least": least})]
        assert hot.row(connection, {"least": least}) == ((least, f"n{least}") if least < 3 else None)


def test_what_the_statement_brings_itself(connection: Connection) -> None:
    connection.execute(insert(THINGS), {"id": 1, "name": "x", "count": 5})
    moved = (
        update(THINGS).where(THINGS.c.id == bindparam("at"), THINGS.c.count == 5).values(count=THINGS.c.count + 2, name=None)
    )
    hot = PreparedStatement(moved.returning(THINGS.c.count, THINGS.c.name))
    assert hot.row(connection, {"at": 1, "unused": 3}) == (7, None)
    assert hot.row(connection, {"at": 1}) is None


def test_a_parameter_that_is_missing_is_an_error(connection: Connection) -> None:
    with pytest.raises((KeyError, DBAPIError)):
        PreparedStatement(select(THINGS.c.id).where(THINGS.c.id == bindparam("at"))).rows(connection, {})


def test_many_rows_and_few(connection: Connection) -> None:
    """The cursor is kept in between, but not with many rows."""
    rows = [{"id": n, "name": "x", "count": n} for n in range(20)]
    added = PreparedStatement(insert(THINGS).values({name: bindparam(name) for name in ("id", "name", "count")}))
    added.run_many(connection, rows[:1])
    added.run_many(connection, rows[1:])
    added.run_many(connection, [])
    found = PreparedStatement(select(THINGS.c.id).where(THINGS.c.count < bindparam("below")).order_by("id"))
    for below in (1, 20, 0, 2):
        assert [row[0] for row in found.rows(connection, {"below": below})] == list(range(below))


@pytest.mark.parametrize("connection", ["postgresql"], indirect=True)
def test_errors_of_the_driver_are_those_of_sqlalchemy(connection: Connection) -> None:
    added = PreparedStatement(insert(THINGS).values(id=bindparam("id")))
    assert added.rows(connection, {"id": 1}) == ()
    with pytest.raises(IntegrityError) as known:
        added.rows(connection, {"id": 1})
    assert not known.value.connection_invalidated
    assert added.rows(connection, {"id": 2}) == (), "the connection is still good"
    driver: Any = connection.connection.driver_connection
    driver.pgconn.finish()
    with pytest.raises(DBAPIError) as lost:
        added.rows(connection, {"id": 3})
    assert lost.value.connection_invalidated
    assert connection.invalidated
