"""Adds experiments: their state, the arm of a decision, and what a shadow policy decided."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Creates the table of experiments, and adds arm and shadow to decisions."""
    op.create_table(
        "turnwise_experiments",
        sa.Column("app", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("app", "name", name="turnwise_experiments_pk"),
    )
    op.add_column("turnwise_decisions", sa.Column("experiment", NAME))
    op.add_column("turnwise_decisions", sa.Column("arm", NAME))
    op.add_column("turnwise_decisions", sa.Column("shadow", sa.Text))
    _partial_index("turnwise_decisions_experiment_ix", ["app", "experiment", "id"], "experiment IS NOT NULL")
    _partial_index("turnwise_decisions_shadow_ix", ["app", "id"], "shadow IS NOT NULL")


def _partial_index(name: str, columns: list[str], where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, "turnwise_decisions", columns, sqlite_where=condition, postgresql_where=condition)
