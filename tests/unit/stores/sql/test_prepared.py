from collections.abc import Iterator

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, bindparam, create_engine, insert, select, update

from turnwise.stores.sql.prepared import PreparedStatement

THINGS = Table("things", MetaData(), Column("id", Integer, primary_key=True), Column("name", Text), Column("count", Integer))


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://", isolation_level="AUTOCOMMIT")
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
    with pytest.raises(KeyError):
        PreparedStatement(select(THINGS.c.id).where(THINGS.c.id == bindparam("at"))).rows(connection, {})
