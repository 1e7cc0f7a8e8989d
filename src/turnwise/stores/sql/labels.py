"""Labels of decisions, their log of changes, and the claims of reviewers, as rows."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    Select,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningInsert

from turnwise.facts.errors import InvocationMissing, StoreError
from turnwise.facts.ids import Issuer
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import OPERATOR, Claim, Label, LabelChange, LabelledDecision, Page
from turnwise.ports.records import Act
from turnwise.stores.sql.app_tables import label_changes, label_claims, labels
from turnwise.stores.sql.ids import check_limit, cursor, new_id, read_cursor
from turnwise.stores.sql.log import read_spans
from turnwise.stores.sql.records import record
from turnwise.stores.sql.rows import AnyRow, moment, time_text
from turnwise.stores.sql.spans import all_of, log_at
from turnwise.stores.sql.tables import clock, column_params, decisions, insert_for, owner_of
from turnwise.stores.sql.worker_pool import Executor

_d, _l, _c, _m = decisions.c, labels.c, label_claims.c, label_changes.c

Place = dict[str, Any]
"""The key of a decision's row, as parameters."""

_BY_OPERATOR = _l.source == OPERATOR
# The operators' newest first, then the heaviest. The first one counts: `decisions.label` repeats it.
_BEST_FIRST = (
    case((_BY_OPERATOR, 0), else_=1),
    case((_BY_OPERATOR, literal(0.0)), else_=_l.weight).desc(),
    _l.id.desc(),
)
NO_AGENT = ""
"""Stands in `decisions.label` for the label that no agent should have been chosen."""


def _is_at(table: Table) -> ColumnElement[bool]:
    return and_(
        table.c.owner == bindparam("at_owner"),
        table.c.session == bindparam("at_log"),
        table.c.sequence == bindparam("at_sequence"),
    )


_IS_ONE = and_(_is_at(labels), _l.source == bindparam("at_source"), _l.author == bindparam("at_author"))
_FIND = select(labels).where(_IS_ONE)
_REMOVE = delete(labels).where(_IS_ONE)
_OF = select(labels).where(_is_at(labels)).order_by(*_BEST_FIRST)
_IS_OF = and_(_l.owner == _d.owner, _l.session == _d.session, _l.sequence == _d.sequence)
_OF_SEVERAL = (
    select(_d.id.label("decision"), labels)
    .join_from(decisions, labels, _IS_OF)
    .where(_d.app == bindparam("at_app"), _d.id.in_(bindparam("ids", expanding=True)))
    .order_by(_d.id, *_BEST_FIRST)
)
_AUTHORS = select(_l.author).where(_is_at(labels), _BY_OPERATOR).order_by(_l.author)
# The row is locked until the end of the transaction, so that of two writers at once the second sees the label of the first.
_DECISION = (
    select(
        _d.invocation_id,
        _d.agent,
        _d.method,
        _d.confidence,
        _d.outcome,
        _d.fingerprint,
        _d.created_at,
    )
    .where(_is_at(decisions))
    .with_for_update()
)
_BEST = select(func.coalesce(_l.label, NO_AGENT)).where(_is_at(labels)).order_by(*_BEST_FIRST).limit(1).scalar_subquery()
_REPEAT_BEST = update(decisions).where(_is_at(decisions)).values(label=_BEST)
_CHANGED_COLUMNS = ("id", "label", "unsure", "weight", "labelled_at", "picked", "probability", "note")
MOST_CHANGES = 20
"""From this one on, an author's changes of a label are one: who toggles a rating fills no log. Operators' are all kept."""
_OWN_CHANGES = (
    select(_m.id)
    .where(_is_at(label_changes), _m.source == bindparam("at_source"), _m.author == bindparam("at_author"))
    .order_by(_m.id.desc())
    .limit(MOST_CHANGES)
)
_MERGE = (
    update(label_changes)
    .where(_is_at(label_changes), _m.id == bindparam("at_id"))
    .values(actor=bindparam("new_actor"), changed_at=bindparam("new_time"), after=bindparam("new_after"))
)
_CHANGES = select(label_changes).where(_is_at(label_changes)).order_by(_m.id)
_CLAIMED = select(_c.reviewer, (_c.ends - clock()).label("seconds")).where(_is_at(label_claims))
_UNCLAIM = delete(label_claims).where(_is_at(label_claims), _c.reviewer == bindparam("reviewer"))


class SqlLabels:
    """The store's labels."""

    def __init__(self, executor: Executor, issuer: Issuer) -> None:
        self._executor, self._issuer = executor, issuer

    async def put(self, key: SessionKey, sequence: int, label: Label, *, actor: str) -> None:
        now = time_text(self._issuer.now())
        await self._executor.write(lambda connection: put(connection, key, sequence, label, actor, now))

    async def remove(self, key: SessionKey, sequence: int, source: str, author: str, *, actor: str) -> bool:
        now = time_text(self._issuer.now())
        return await self._executor.write(lambda connection: remove(connection, key, sequence, (source, author), actor, now))

    async def of(self, key: SessionKey, sequence: int) -> Sequence[LabelledDecision]:
        return await self._executor.read(lambda connection: _of(connection, key, sequence))

    async def search(
        self, app: str, *, user: str | None = None, source: str | None = None, after: str | None = None, limit: int = 50
    ) -> Page[LabelledDecision]:
        return await self._executor.read(lambda connection: _search(connection, app, user, source, after, limit))

    async def changes(self, key: SessionKey, sequence: int) -> Sequence[LabelChange]:
        return await self._executor.read(lambda connection: _changes(connection, key, sequence))

    async def claim(self, key: SessionKey, sequence: int, reviewer: str, *, seconds: float) -> Claim:
        return await self._executor.write(lambda connection: _claim(connection, key, sequence, reviewer, seconds))

    async def unclaim(self, key: SessionKey, sequence: int, reviewer: str) -> None:
        await self._executor.write(lambda connection: _unclaim(connection, key, sequence, reviewer))


def place_of(connection: Connection, key: SessionKey, sequence: int) -> Place | None:
    """Returns the key of the decision's row, in the session's own log or an inherited one; None for a missing session."""
    found = read_spans(connection, key)
    if found is None:
        return None
    number, spans = found
    return {"at_owner": owner_of(key.app, key.user), "at_log": log_at(all_of(spans, number), sequence), "at_sequence": sequence}


def put(connection: Connection, key: SessionKey, sequence: int, label: Label, actor: str, now: str) -> None:
    """Stores a label and the change, unless the same label is stored."""
    place, decision = _decided(connection, key, sequence)
    before = _find(connection, place, label.source, label.author)
    if before is not None and before.replace(at=None) == label.replace(at=None):
        return
    after = label.replace(at=moment(now))
    connection.execute(_upsert(connection.dialect.name), _row(place, key, decision, after, now))
    connection.execute(_REPEAT_BEST, place)
    _record(connection, key, place, actor, now, before, after)


def remove(connection: Connection, key: SessionKey, sequence: int, author: tuple[str, str], actor: str, now: str) -> bool:
    """Removes the label of a source's author. Returns whether it existed."""
    place = place_of(connection, key, sequence)
    if place is None:
        return False
    connection.execute(_DECISION, place)
    before = _find(connection, place, *author)
    if before is None:
        return False
    connection.execute(_REMOVE, {**place, "at_source": author[0], "at_author": author[1]})
    connection.execute(_REPEAT_BEST, place)
    _record(connection, key, place, actor, now, before, None)
    return True


def remove_operators(connection: Connection, key: SessionKey, sequence: int, actor: str, now: str) -> None:
    """Removes the labels of all operators. Raises InvocationMissing when there is no decision."""
    place, _ = _decided(connection, key, sequence)
    for author in connection.execute(_AUTHORS, place).scalars().all():
        remove(connection, key, sequence, (OPERATOR, author), actor, now)


def _decided(connection: Connection, key: SessionKey, sequence: int) -> tuple[Place, AnyRow]:
    """Returns the place and the row of a decision. Raises InvocationMissing."""
    place = place_of(connection, key, sequence)
    decision = None if place is None else connection.execute(_DECISION, place).first()
    if place is None or decision is None:
        raise InvocationMissing(
            f"Session {key.id!r} has no decision at sequence number {sequence}.", fix="Search its decisions for the numbers."
        )
    return place, decision


def labels_of(connection: Connection, app: str, ids: Sequence[int]) -> Mapping[int, Sequence[Label]]:
    """Returns the labels of decisions by the ids of these: the operators' newest first, then the others, the heaviest first."""
    found: dict[int, list[Label]] = {}
    if ids:
        for row in connection.execute(_OF_SEVERAL, {"at_app": app, "ids": ids}):
            found.setdefault(row.decision, []).append(_label(row))
    return found


def _find(connection: Connection, place: Place, source: str, author: str) -> Label | None:
    row = connection.execute(_FIND, {**place, "at_source": source, "at_author": author}).first()
    return None if row is None else _label(row)


def _row(place: Place, key: SessionKey, decision: AnyRow, label: Label, now: str) -> dict[str, Any]:
    """Returns the row of a label, with the facts of its decision."""
    return {
        "owner": place["at_owner"],
        "session": place["at_log"],
        "sequence": place["at_sequence"],
        "source": label.source,
        "author": label.author,
        "id": new_id(),
        "label": label.agent,
        "unsure": label.unsure,
        "weight": label.weight,
        "labelled_at": now,
        "picked": label.picked,
        "probability": label.probability,
        "app": key.app,
        "user_id": key.user,
        "session_id": key.id,
        "invocation_id": decision.invocation_id,
        "agent": decision.agent,
        "method": decision.method,
        "confidence": decision.confidence,
        "outcome": decision.outcome,
        "fingerprint": decision.fingerprint,
        "decided_at": decision.created_at,
        "note": label.note,
    }


@cache
def _upsert(dialect: str) -> Insert:
    written = insert_for(dialect, labels).values(column_params(labels))
    changed = {name: written.excluded[name] for name in _CHANGED_COLUMNS}
    return written.on_conflict_do_update(index_elements=[column.name for column in labels.primary_key], set_=changed)


def _label(row: AnyRow) -> Label:
    """Returns the label that a row holds."""
    return Label(
        source=row.source,
        author=row.author,
        agent=row.label,
        unsure=row.unsure,
        note=row.note,
        weight=row.weight,
        picked=row.picked,
        probability=row.probability,
        at=moment(row.labelled_at),
    )


def _labelled(row: AnyRow) -> LabelledDecision:
    """Returns the labelled decision that a row holds."""
    return LabelledDecision(
        key=SessionKey(row.app, row.user_id, row.session_id),
        sequence=row.sequence,
        invocation_id=row.invocation_id,
        agent=row.agent,
        method=row.method,
        confidence=row.confidence,
        outcome=row.outcome,
        fingerprint=row.fingerprint,
        decided_at=moment(row.decided_at),
        label=_label(row),
    )


def _record(
    connection: Connection,
    key: SessionKey,
    place: Place,
    actor: str,
    now: str,
    before: Label | None,
    after: Label | None,
) -> None:
    """Records a change in the log of changes and in the audit log."""
    label = after or before
    assert label is not None
    written = None if after is None else after.model_dump_json()
    if label.source != OPERATOR:
        earlier = (
            connection.execute(_OWN_CHANGES, {**place, "at_source": label.source, "at_author": label.author}).scalars().all()
        )
        if len(earlier) == MOST_CHANGES:
            values = {"at_id": earlier[0], "new_actor": actor, "new_time": now, "new_after": written}
            connection.execute(_MERGE, {**place, **values})
            return
    row = {
        "owner": place["at_owner"],
        "session": place["at_log"],
        "sequence": place["at_sequence"],
        "id": new_id(),
        "app": key.app,
        "user_id": key.user,
        "source": label.source,
        "author": label.author,
        "actor": actor,
        "changed_at": now,
        "before": None if before is None else before.model_dump_json(),
        "after": written,
    }
    connection.execute(insert(label_changes).inline(), row)
    action = "label.removed" if after is None else "label.put"
    details = {"sequence": place["at_sequence"], "source": label.source, "agent": label.agent}
    record(connection, key.app, Act(actor, action, key.user, key.id, details), now)


def _of(connection: Connection, key: SessionKey, sequence: int) -> list[LabelledDecision]:
    place = place_of(connection, key, sequence)
    return [] if place is None else [_labelled(row) for row in connection.execute(_OF, place)]


@cache
def _page(*, user: bool, source: bool) -> Select[Any]:
    """Returns the query for a page of labels, the oldest first."""
    found = select(labels).where(_l.app == bindparam("at_app"), _l.id > bindparam("after"))
    if user:
        found = found.where(_l.owner == bindparam("at_owner"), _l.user_id == bindparam("at_user"))
    if source:
        found = found.where(_l.source == bindparam("at_source"))
    return found.order_by(_l.id).limit(bindparam("at_most"))


def _search(
    connection: Connection, app: str, user: str | None, source: str | None, after: str | None, limit: int
) -> Page[LabelledDecision]:
    """Returns a page of labelled decisions, the oldest label first."""
    check_limit(limit)
    values: dict[str, Any] = {"at_app": app, "after": 0, "at_most": limit + 1}
    if after is not None:
        (values["after"],) = read_cursor("labels", after, int)
    if user is not None:
        values |= {"at_owner": owner_of(app, user), "at_user": user}
    if source is not None:
        values["at_source"] = source
    rows = connection.execute(_page(user=user is not None, source=source is not None), values).all()
    return Page(tuple(map(_labelled, rows[:limit])), cursor("labels", rows[limit - 1].id) if len(rows) > limit else None)


def _changes(connection: Connection, key: SessionKey, sequence: int) -> list[LabelChange]:
    """Returns the changes of a decision's labels, in order."""
    place = place_of(connection, key, sequence)
    if place is None:
        return []
    return [
        LabelChange(
            source=row.source,
            author=row.author,
            actor=row.actor,
            at=moment(row.changed_at),
            before=None if row.before is None else Label.model_validate_json(row.before),
            after=None if row.after is None else Label.model_validate_json(row.after),
        )
        for row in connection.execute(_CHANGES, place)
    ]


@cache
def _claim_upsert(dialect: str) -> ReturningInsert[Any]:
    """Returns the statement that claims a decision for a reviewer, if nobody else has the claim."""
    ends = clock() + bindparam("seconds", type_=_c.ends.type)
    values = {name: value for name, value in column_params(label_claims).items() if name != "ends"}
    written = insert_for(dialect, label_claims).values({**values, "ends": ends})
    kept = written.on_conflict_do_update(
        index_elements=[column.name for column in label_claims.primary_key],
        set_={"reviewer": written.excluded.reviewer, "ends": written.excluded.ends},
        # In one statement, so that two reviewers never both have the claim.
        where=(_c.reviewer == written.excluded.reviewer) | (_c.ends <= clock()),
    )
    return kept.returning(_c.reviewer)


def _claim(connection: Connection, key: SessionKey, sequence: int, reviewer: str, seconds: float) -> Claim:
    """Claims a decision for a reviewer, and returns the claim that holds, which may be another reviewer's."""
    if "\0" in reviewer:
        raise StoreError("A reviewer's name holds the character NUL.", fix="Leave it out.")
    place, _ = _decided(connection, key, sequence)
    row = {
        "owner": place["at_owner"],
        "session": place["at_log"],
        "sequence": sequence,
        "app": key.app,
        "user_id": key.user,
        "reviewer": reviewer,
        "seconds": seconds,
    }
    connection.execute(_claim_upsert(connection.dialect.name), row)
    held = connection.execute(_CLAIMED, place).one()
    return Claim(reviewer=held.reviewer, seconds=max(held.seconds, 0.0))


def _unclaim(connection: Connection, key: SessionKey, sequence: int, reviewer: str) -> None:
    place = place_of(connection, key, sequence)
    if place is not None:
        connection.execute(_UNCLAIM, {**place, "reviewer": reviewer})
