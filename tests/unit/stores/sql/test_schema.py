from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, create_engine, inspect, text

from turnwise.facts.errors import SchemaNewer
from turnwise.stores.sql import words
from turnwise.stores.sql.app_tables import metadata
from turnwise.stores.sql.schema import is_current, migrate
from turnwise.stores.sql.tables import SCHEMA, VERSION_TABLE


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://", isolation_level="AUTOCOMMIT")
    with engine.connect() as opened:
        yield opened
    engine.dispose()


def test_an_empty_database_gets_the_tables(connection: Connection) -> None:
    assert not is_current(connection)
    migrate(connection, "here")
    assert is_current(connection)
    migrate(connection, "here")
    assert _tables(connection) == set(metadata.tables)


def _tables(connection: Connection) -> set[str]:
    """All tables but those of the index of words."""
    return {name for name in inspect(connection).get_table_names() if not name.startswith(words.TABLE)}


def test_an_older_one_is_migrated(connection: Connection) -> None:
    connection.execute(text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL)"))
    assert not is_current(connection)
    migrate(connection, "here")
    assert is_current(connection)
    assert _tables(connection) == set(metadata.tables)


def test_a_newer_one_is_refused(connection: Connection) -> None:
    migrate(connection, "here")
    connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = 'f00d'"))
    with pytest.raises(SchemaNewer, match=f"here was made by a newer Turnwise: .* f00d, .* {SCHEMA}"):
        migrate(connection, "here")
