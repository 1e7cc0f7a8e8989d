"""Erases a user's name and words from the rows that outlive sessions: labels, the audit log, holds.

Labels of the user's decisions are deleted. Acts of the user on the data of others stay, without the user's name. The user's API
keys are deleted at the beginning, so that no request uses them any more.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Table, and_, bindparam, delete, exists, select, update

from turnwise.facts.callers import ApiKey
from turnwise.ports.decisions import Label
from turnwise.stores.sql.ids import new_id
from turnwise.stores.sql.record_tables import audit, holds, label_changes, label_claims, labels
from turnwise.stores.sql.rows import AnyRow
from turnwise.stores.sql.tables import keys, sessions

STEP_ROWS = 500
"""The number of rows that one step changes at most."""
ERASED = "erased"
"""Stands for the name of an erased user who acted on the data of others."""
TOKEN = "token:{}"
"""The id of a caller that is identified by a token of the user."""


class ErasedUser(NamedTuple):
    """The user to erase."""

    owner: int
    app: str
    user: str

    @property
    def actors(self) -> tuple[str, str]:
        """The names of the user as the author of an act."""
        return self.user, TOKEN.format(self.user)


def erase_some(connection: Connection, erased: ErasedUser) -> bool:
    """Runs the first step that finds rows. Returns whether there may be more."""
    return any(step(connection, erased) for step in _STEPS)


def delete_keys(connection: Connection, app: str, user: str) -> None:
    """Deletes the API keys that identify the user."""
    of_app = select(keys.c.app, keys.c.key_id, keys.c.body).where(keys.c.app == app)
    _delete(connection, keys, [row for row in connection.execute(of_app) if ApiKey.model_validate_json(row.body).user == user])


def _delete_of_user(table: Table) -> Callable[[Connection, ErasedUser], bool]:
    """Returns the step that deletes the rows of the user's deleted sessions. Sessions that the user created since stay."""

    def step(connection: Connection, erased: ErasedUser) -> bool:
        c = table.c
        is_kept = exists().where(sessions.c.owner == c.owner, sessions.c.number == c.session)
        is_theirs = and_(c.owner == erased.owner, c.app == erased.app, c.user_id == erased.user, ~is_kept)
        return _delete(connection, table, _some(connection, table, is_theirs))

    return step


def _delete_claims_by(connection: Connection, erased: ErasedUser) -> bool:
    is_theirs = and_(label_claims.c.app == erased.app, label_claims.c.reviewer.in_(erased.actors))
    return _delete(connection, label_claims, _some(connection, label_claims, is_theirs))


def _clear_audit(connection: Connection, erased: ErasedUser) -> bool:
    a = audit.c
    rows = _some(connection, audit, and_(a.owner == erased.owner, a.app == erased.app, a.user_id == erased.user))
    cleared = {"user_id": None, "session_id": None, "details": "{}"}
    return _change(connection, audit, rows, lambda _row: cleared)


def _rename(table: Table, column: Column[Any]) -> Callable[[Connection, ErasedUser], bool]:
    def step(connection: Connection, erased: ErasedUser) -> bool:
        rows = _some(connection, table, and_(table.c.app == erased.app, column.in_(erased.actors)))
        return _change(connection, table, rows, lambda _row: {column.name: ERASED})

    return step


def _rename_labels_by(connection: Connection, erased: ErasedUser) -> bool:
    rows = _some(connection, labels, and_(labels.c.app == erased.app, labels.c.author.in_(erased.actors)))
    # Several erased authors may have labelled the same decision.
    return _change(connection, labels, rows, lambda _row: {"author": f"{ERASED}-{new_id()}", "note": ""})


def _rename_changes_by(connection: Connection, erased: ErasedUser) -> bool:
    """Removes the user as the author of label changes, a batch at a time. Returns whether there may be more."""
    m = label_changes.c
    rows = _some(connection, label_changes, and_(m.app == erased.app, m.author.in_(erased.actors)))

    def changed(row: AnyRow) -> dict[str, Any]:
        return {"author": ERASED, "before": _without_author(row.before), "after": _without_author(row.after)}

    return _change(connection, label_changes, rows, changed)


def _without_author(label: str | None) -> str | None:
    if label is None:
        return None
    return Label.model_validate_json(label).replace(author=ERASED, note="").model_dump_json()


def _some(connection: Connection, table: Table, condition: Any) -> Sequence[AnyRow]:
    return connection.execute(select(table).where(condition).limit(STEP_ROWS)).all()


def _delete(connection: Connection, table: Table, rows: Sequence[AnyRow]) -> bool:
    if rows:
        connection.execute(delete(table).where(_is_row(table)), [_at(table, row) for row in rows])
    return bool(rows)


def _change(
    connection: Connection, table: Table, rows: Sequence[AnyRow], changed: Callable[[AnyRow], Mapping[str, Any]]
) -> bool:
    """Updates these rows with the values that `changed` returns. Returns whether there were any."""
    if rows:
        names = list(changed(rows[0]))
        statement = update(table).where(_is_row(table)).values({name: bindparam(f"new_{name}") for name in names})
        values = [_at(table, row) | {f"new_{name}": value for name, value in changed(row).items()} for row in rows]
        connection.execute(statement, values)
    return bool(rows)


def _is_row(table: Table) -> Any:
    return and_(*(column == bindparam(f"at_{column.name}") for column in table.primary_key))


def _at(table: Table, row: AnyRow) -> dict[str, Any]:
    return {f"at_{column.name}": row._mapping[column.name] for column in table.primary_key}


_STEPS = (
    _delete_of_user(labels),
    _delete_of_user(label_changes),
    _delete_of_user(label_claims),
    _clear_audit,
    _rename(audit, audit.c.actor),
    _rename_labels_by,
    _rename_changes_by,
    _rename(label_changes, label_changes.c.actor),
    _delete_claims_by,
    _rename(holds, holds.c.author),
)
