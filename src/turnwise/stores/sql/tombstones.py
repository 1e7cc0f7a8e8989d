"""Stored work on a session's rows that any process can continue: the rest of a deletion, of an erasure or of a rewind."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, and_

from turnwise.stores.sql.tables import insert_for, removals


class Removal(NamedTuple):
    """A deleted session or an erased user whose rows are still stored, or a rewound session with states of hidden decisions."""

    owner: int
    session: int
    app: str
    user: str
    keeps_labels: bool = False
    """Whether the labels of decisions stay."""


def store_removals(connection: Connection, stored: Sequence[Removal]) -> None:
    """Stores removals, so that any process can continue them."""
    rows = [
        {
            "owner": each.owner,
            "session": each.session,
            "app": each.app,
            "user_id": each.user,
            "keeps_labels": each.keeps_labels,
        }
        for each in stored
    ]
    if rows:
        insert = insert_for(connection.dialect.name, removals)
        # An update waits for the step of another process that works on the removal, and stores it again if that was the last.
        same = {"keeps_labels": and_(removals.c.keeps_labels, insert.excluded.keeps_labels)}
        connection.execute(insert.on_conflict_do_update(index_elements=["owner", "session"], set_=same), rows)
