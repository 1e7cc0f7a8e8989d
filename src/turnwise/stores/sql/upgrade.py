"""Tells whether a database has to be migrated, without changing it."""

import os

from sqlalchemy import create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from turnwise.facts.errors import ConfigError, MissingExtra, StoreUnavailable
from turnwise.ports.maintenance import SchemaStatus
from turnwise.stores.sql import old_tables, schema
from turnwise.stores.sql.tables import SCHEMA

CONNECT_SECONDS = 5


def read_status(url: str) -> SchemaStatus:
    """Reads the revision of the database. Creates no file and no table.

    Raises:
        ConfigError: The URL names no database that keeps anything.
        StoreUnavailable: The database cannot be read.
    """
    parsed = make_url(url)
    if parsed.drivername.startswith("sqlite"):
        if parsed.database in {None, "", ":memory:"}:
            raise ConfigError("The sessions are in memory; there is nothing to migrate.", fix="Name a file or a server.")
        path = os.path.abspath(str(parsed.database))
        if not os.path.exists(path):
            return SchemaStatus(None, SCHEMA, False)
        return _read(URL.create("sqlite", database=f"file:{path}", query={"mode": "ro", "uri": "true"}), path)
    shown = parsed.set(drivername="postgresql", query={}).render_as_string(hide_password=True)
    parsed = parsed.set(drivername="postgresql+psycopg").update_query_dict({"connect_timeout": str(CONNECT_SECONDS)})
    return _read(parsed, shown)


def _read(url: URL, shown: str) -> SchemaStatus:
    """Reads the database's revision. Raises MissingExtra, StoreUnavailable."""
    try:
        engine = create_engine(url, poolclass=NullPool, hide_parameters=True)
    except ModuleNotFoundError as error:
        raise MissingExtra("PostgreSQL", "postgres") from error
    try:
        with engine.connect() as connection:
            found = schema.find_revision(connection)
            return SchemaStatus(found, SCHEMA, found == SCHEMA and old_tables.is_pending(connection))
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", error)).splitlines()[0]
        raise StoreUnavailable(f"{shown} cannot be read: {reason}.", fix="Check the store's URL.") from error
