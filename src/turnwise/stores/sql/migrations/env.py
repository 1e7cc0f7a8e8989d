"""Alembic's entry point: runs the migrations on the given connection, inside its transaction."""

from alembic import context

from turnwise.stores.sql.app_tables import metadata
from turnwise.stores.sql.tables import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    # SQLite alters a table by rebuilding it.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
