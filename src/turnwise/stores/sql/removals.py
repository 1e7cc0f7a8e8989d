"""Deletes sessions, also all of a user: they disappear at once, and their rows are deleted in short transactions.

A removal is stored until all its rows are deleted, so that any process can continue it after a crash. The erasure of a user is
a removal, too: it ends after those of the user's sessions, when nothing names the user any more. It deletes the labels of the
user's decisions. Acts of the user on the data of others stay, without the user's name. The user's API keys are deleted at the
beginning, so that no request uses them any more.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Table, and_, bindparam, delete, exists, select, update

from turnwise.facts.callers import ApiKey
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import Label
from turnwise.ports.records import Act
from turnwise.stores.sql import definitions, memory_writes
from turnwise.stores.sql.app_tables import audit, holds, label_changes, label_claims, labels
from turnwise.stores.sql.ids import new_id
from turnwise.stores.sql.log import missing_or_stale
from turnwise.stores.sql.records import check_no_hold, record
from turnwise.stores.sql.rows import AnyRow, Removal, delete_user_state, store_removals
from turnwise.stores.sql.spans import gaps, spans_of
from turnwise.stores.sql.tables import (
    decisions,
    events,
    is_session,
    jobs,
    keys,
    messages,
    owner_of,
    pushes,
    removals,
    session_params,
    sessions,
    shares,
    snapshots,
)

STEP_ROWS = 500
"""The number of rows that one transaction deletes at most."""
PENDING = 100
ALL_SESSIONS = 0
"""The session of a removal that erases the user."""

_s, _e, _r, _h = sessions.c, events.c, removals.c, shares.c

_HIDE = delete(sessions).where(is_session()).returning(_s.owner, _s.number)
_HIDE_UNCHANGED = (
    delete(sessions).where(is_session(), _s.revision == bindparam("at_revision"), _s.queued == 0).returning(_s.owner, _s.number)
)
_OF_USER = and_(_s.owner == bindparam("at_owner"), _s.app == bindparam("at_app"), _s.user_id == bindparam("at_user"))
_HIDE_ALL = delete(sessions).where(_OF_USER).returning(_s.number)
# The row of a session that exists is of a rewind (`spans`).
_IS_GONE = ~exists().where(_s.owner == _r.owner, _s.number == _r.session)
_PENDING = (
    select(_r.owner, _r.session, _r.app, _r.user_id, _r.keeps_labels)
    .where(_IS_GONE)
    .order_by(_r.owner, _r.session)
    .limit(PENDING)
)
_PENDING_OF_USER = (
    select(_r.owner, _r.session, _r.app, _r.user_id, _r.keeps_labels)
    .where(
        _r.owner == bindparam("at_owner"),
        _r.app == bindparam("at_app"),
        _r.user_id == bindparam("at_user"),
        _r.session != ALL_SESSIONS,
        _IS_GONE,
    )
    .limit(1)
)
_LOCK = select(_r.session).where(_r.owner == bindparam("at_owner"), _r.session == bindparam("at_session")).with_for_update()
_DONE = delete(removals).where(_r.owner == bindparam("at_owner"), _r.session == bindparam("at_session"))
_EXISTS = select(_s.number).where(_s.owner == bindparam("at_owner"), _s.number == bindparam("at_session"))
_SHARED = select(_h.log).where(_h.owner == bindparam("at_owner"), _h.session == bindparam("at_session"))
_UNSHARE = delete(shares).where(_h.owner == bindparam("at_owner"), _h.session == bindparam("at_session"))
_READERS = (
    select(_s.number, _s.spans)
    .join(shares, and_(_h.owner == _s.owner, _h.session == _s.number))
    .where(_h.owner == bindparam("at_owner"), _h.log == bindparam("at_session"))
)
_OF_SESSION = (messages, jobs, pushes)


def hide_session(connection: Connection, key: SessionKey, revision: int | None, actor: str, now: str) -> Removal | None:
    """Deletes the session's own row, so that nothing of it can be seen.

    Returns:
        None without such a session and without a revision.

    Raises:
        UserOnHold: The user has a legal hold.
        SessionMissing, StaleWriter: The session does not have the revision, or messages are in its inbox.
    """
    check_no_hold(connection, key.app, key.user)
    at = session_params(key)
    if revision is None:
        row = connection.execute(_HIDE, at).first()
    else:
        row = connection.execute(_HIDE_UNCHANGED, at | {"at_revision": revision}).first()
    if row is None:
        if revision is not None:
            raise missing_or_stale(connection, key)
        return None
    record(connection, key.app, Act(actor, "session.deleted", key.user, key.id), now)
    removal = Removal(row.owner, row.number, key.app, key.user)
    store_removals(connection, [removal])
    return removal


def hide_user(connection: Connection, app: str, user: str, actor: str, now: str) -> Removal:
    """Deletes the user's state, API keys and the rows of all sessions. Sessions that the user creates later stay.

    Raises UserOnHold.
    """
    check_no_hold(connection, app, user)
    record(connection, app, Act(actor, "user.erased", user), now)
    erasure = Removal(owner_of(app, user), ALL_SESSIONS, app, user)
    delete_user_state(connection, app, user)
    delete_keys(connection, app, user)
    numbers = connection.execute(_HIDE_ALL, _of_user(erasure)).scalars()
    store_removals(connection, [erasure, *(erasure._replace(session=number) for number in numbers)])
    return erasure


def pending(connection: Connection) -> Sequence[Removal]:
    """Returns removals that are not finished."""
    return [Removal(*row) for row in connection.execute(_PENDING)]


def remove_some(connection: Connection, removal: Removal) -> bool:
    """Deletes up to `STEP_ROWS` rows. Returns whether there may be more.

    It locks the removal. A process that stops to read this log therefore stores the removal again, after this step.
    """
    if removal.session == ALL_SESSIONS:
        return _erase_some(connection, removal)
    at = _at(removal)
    if connection.execute(_LOCK, at).first() is None:
        return False  # another process finished it
    for table in _OF_SESSION:
        if _delete_some(connection, table, removal):
            return True
    _release_logs(connection, removal)
    if _delete_log(connection, removal):
        return True
    connection.execute(_DONE, at)
    return False


def _erase_some(connection: Connection, erasure: Removal) -> bool:
    """Deletes rows of the user's deleted sessions, then those that name the user elsewhere."""
    if memory_writes.forget_some(connection, erasure.owner):
        return True
    row = connection.execute(_PENDING_OF_USER, _of_user(erasure)).first()
    if row is not None:
        remove_some(connection, Removal(*row))
        return True
    if definitions.retire_some(connection, erasure.app, erasure.user):
        return True
    if erase_some(connection, ErasedUser(erasure.owner, erasure.app, erasure.user)):
        return True
    connection.execute(_DONE, _at(erasure))
    return False


def _release_logs(connection: Connection, removal: Removal) -> None:
    """Ends the sharing of other logs. A log of a deleted session that nobody else reads is then removed, too."""
    at = _at(removal)
    logs = list(connection.execute(_SHARED, at).scalars())
    if not logs:
        return
    connection.execute(_UNSHARE, at)
    for log in logs:
        if connection.execute(_EXISTS, at | {"at_session": log}).first() is None:
            store_removals(connection, [removal._replace(session=log)])


def _delete_log(connection: Connection, removal: Removal) -> bool:
    """Deletes some events, decisions and snapshots of the log that no fork reads. Returns whether there may be more."""
    of_labels = () if removal.keeps_labels else ((labels, "session"), (label_changes, "session"))
    of_log = ((snapshots, "log"), (label_claims, "session"), *of_labels, (decisions, "session"), (events, "log"))
    unread = _unread(connection, removal)
    if memory_writes.delete_of_session(connection, removal.owner, removal.session, unread):
        return True
    for first, last in unread:
        for table, column in of_log:
            if _delete_range(connection, table, column, removal, first, last):
                return True
    return False


def _unread(connection: Connection, removal: Removal) -> list[tuple[int, int]]:
    """Returns the ranges of the log that no fork reads, as first and last numbers."""
    log = removal.session
    read = sorted(
        (span.first, span.last)
        for row in connection.execute(_READERS, _at(removal))
        for span in spans_of(row.spans, row.number)
        if span.log == log
    )
    return gaps(read)


def _delete_some(connection: Connection, table: Table, removal: Removal) -> bool:
    """Deletes up to `STEP_ROWS` rows of the session. Returns whether there may be more."""
    key = [each for each in table.primary_key if each.name != "owner"]
    is_here = and_(table.c.owner == removal.owner, table.c.session == removal.session)
    rows = connection.execute(select(*key).where(is_here).order_by(*key).limit(STEP_ROWS)).all()
    if rows:
        is_row = and_(table.c.owner == removal.owner, *(each == bindparam(f"at_{each.name}") for each in key))
        values: list[dict[str, Any]] = [{f"at_{name}": value for name, value in row._mapping.items()} for row in rows]
        connection.execute(delete(table).where(is_row), values)
    return len(rows) == STEP_ROWS


def _delete_range(connection: Connection, table: Table, column: str, removal: Removal, first: int, last: int) -> bool:
    """Deletes the first `STEP_ROWS` rows of a range of the log. Returns whether there may be more."""
    number = table.c.sequence
    in_range = and_(table.c.owner == removal.owner, table.c[column] == removal.session, number >= first, number <= last)
    found = select(number).where(in_range).order_by(number).limit(STEP_ROWS)
    numbers = connection.execute(found).scalars().all()
    if numbers:
        connection.execute(delete(table).where(in_range, number <= numbers[-1]))
    return len(numbers) == STEP_ROWS


def _at(removal: Removal) -> dict[str, Any]:
    return {"at_owner": removal.owner, "at_session": removal.session}


def _of_user(removal: Removal) -> dict[str, Any]:
    return {"at_owner": removal.owner, "at_app": removal.app, "at_user": removal.user}


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
    rows = [row for row in connection.execute(of_app) if ApiKey.model_validate_json(row.body).user == user]
    _delete_rows(connection, keys, rows)


def _delete_of_user(table: Table) -> Callable[[Connection, ErasedUser], bool]:
    """Returns the step that deletes the rows of the user's deleted sessions. Sessions that the user created since stay."""

    def step(connection: Connection, erased: ErasedUser) -> bool:
        c = table.c
        is_kept = exists().where(sessions.c.owner == c.owner, sessions.c.number == c.session)
        is_theirs = and_(c.owner == erased.owner, c.app == erased.app, c.user_id == erased.user, ~is_kept)
        return _delete_rows(connection, table, _some_rows(connection, table, is_theirs))

    return step


def _delete_claims_by(connection: Connection, erased: ErasedUser) -> bool:
    is_theirs = and_(label_claims.c.app == erased.app, label_claims.c.reviewer.in_(erased.actors))
    return _delete_rows(connection, label_claims, _some_rows(connection, label_claims, is_theirs))


def _clear_audit(connection: Connection, erased: ErasedUser) -> bool:
    a = audit.c
    rows = _some_rows(connection, audit, and_(a.owner == erased.owner, a.app == erased.app, a.user_id == erased.user))
    cleared = {"user_id": None, "session_id": None, "details": "{}"}
    return _change_rows(connection, audit, rows, lambda _row: cleared)


def _rename(table: Table, column: Column[Any]) -> Callable[[Connection, ErasedUser], bool]:
    def step(connection: Connection, erased: ErasedUser) -> bool:
        rows = _some_rows(connection, table, and_(table.c.app == erased.app, column.in_(erased.actors)))
        return _change_rows(connection, table, rows, lambda _row: {column.name: ERASED})

    return step


def _rename_labels_by(connection: Connection, erased: ErasedUser) -> bool:
    rows = _some_rows(connection, labels, and_(labels.c.app == erased.app, labels.c.author.in_(erased.actors)))
    # Several erased authors may have labelled the same decision.
    return _change_rows(connection, labels, rows, lambda _row: {"author": f"{ERASED}-{new_id()}", "note": ""})


def _rename_changes_by(connection: Connection, erased: ErasedUser) -> bool:
    """Removes the user as the author of label changes, a batch at a time. Returns whether there may be more."""
    m = label_changes.c
    rows = _some_rows(connection, label_changes, and_(m.app == erased.app, m.author.in_(erased.actors)))

    def changed(row: AnyRow) -> dict[str, Any]:
        return {"author": ERASED, "before": _without_author(row.before), "after": _without_author(row.after)}

    return _change_rows(connection, label_changes, rows, changed)


def _without_author(label: str | None) -> str | None:
    if label is None:
        return None
    return Label.model_validate_json(label).replace(author=ERASED, note="").model_dump_json()


def _some_rows(connection: Connection, table: Table, condition: Any) -> Sequence[AnyRow]:
    return connection.execute(select(table).where(condition).limit(STEP_ROWS)).all()


def _delete_rows(connection: Connection, table: Table, rows: Sequence[AnyRow]) -> bool:
    if rows:
        connection.execute(delete(table).where(_is_row(table)), [_key_of(table, row) for row in rows])
    return bool(rows)


def _change_rows(
    connection: Connection, table: Table, rows: Sequence[AnyRow], changed: Callable[[AnyRow], Mapping[str, Any]]
) -> bool:
    """Updates these rows with the values that `changed` returns. Returns whether there were any."""
    if rows:
        names = list(changed(rows[0]))
        statement = update(table).where(_is_row(table)).values({name: bindparam(f"new_{name}") for name in names})
        values = [_key_of(table, row) | {f"new_{name}": value for name, value in changed(row).items()} for row in rows]
        connection.execute(statement, values)
    return bool(rows)


def _is_row(table: Table) -> Any:
    return and_(*(column == bindparam(f"at_{column.name}") for column in table.primary_key))


def _key_of(table: Table, row: AnyRow) -> dict[str, Any]:
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
