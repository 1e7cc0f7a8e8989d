"""Alembic's entry: it runs the migrations on the connection it is given, inside that one's transaction."""

from alembic import context

from turnwise.stores.sql.tables import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    # SQLite changes a table by making a new one.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
