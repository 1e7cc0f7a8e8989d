"""Experiments as rows, changed by compare-and-set, and their decisions for the analysis."""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, literal_column, or_, select, update

from turnwise.facts.errors import StoreError
from turnwise.facts.ids import Issuer
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import OPERATOR, Page
from turnwise.ports.experiments import ExperimentRecord, Trial, TrialLabel
from turnwise.ports.records import Act
from turnwise.stores.sql import records
from turnwise.stores.sql.app_tables import experiments, labels
from turnwise.stores.sql.ids import check_limit, cursor, read_cursor
from turnwise.stores.sql.labels import place_of
from turnwise.stores.sql.rows import AnyRow, moment, time_text
from turnwise.stores.sql.tables import decisions, insert_for, sessions
from turnwise.stores.sql.worker_pool import Executor

_TREE = re.compile(r'"tree_version":"([^"\\]*)"')
"""Finds the version of the tree in a record. Quotes within texts are escaped, so only the key matches."""
_LABELS_AT_ONCE = 200

_x, _d, _s, _l = experiments.c, decisions.c, sessions.c, labels.c
# Written out, because a partial index is used only for exactly its own condition.
_HAS_SHADOW: Any = literal_column("turnwise_decisions.shadow IS NOT NULL")

_ALL = select(_x.version, _x.body).where(_x.app == bindparam("at_app")).order_by(_x.name)
_REPLACE = (
    update(experiments)
    .where(_x.app == bindparam("at_app"), _x.name == bindparam("at_name"), _x.version == bindparam("at_version"))
    .values(version=bindparam("new_version"), body=bindparam("new_body"))
)
_PUT_SHADOW = (
    update(decisions)
    .where(_d.owner == bindparam("at_owner"), _d.session == bindparam("at_log"), _d.sequence == bindparam("at_sequence"))
    .values(shadow=bindparam("new_shadow"))
)


class SqlExperiments:
    """The store's experiments."""

    def __init__(self, executor: Executor, issuer: Issuer) -> None:
        self._executor, self._issuer = executor, issuer

    async def all(self, app: str) -> Sequence[ExperimentRecord]:
        return await self._executor.read(lambda connection: _all(connection, app))

    async def replace(self, app: str, record: ExperimentRecord, *, act: Act | None = None) -> ExperimentRecord | None:
        """Stores the record if its version is the stored one, with the audit entry. Returns the new one; None if it is not."""
        new, now = record.replace(version=record.version + 1), time_text(self._issuer.now())

        def job(connection: Connection) -> bool:
            stored = _replace(connection, app, record, new)
            if stored and act is not None:
                records.record(connection, app, act, now)
            return stored

        # After a commit of unknown outcome a repetition would meet its own version as another writer's.
        return new if await self._executor.write(job, repeatable=False) else None

    async def trials(self, app: str, experiment: str | None, *, after: str | None = None, limit: int = 1_000) -> Page[Trial]:
        return await self._executor.read(lambda connection: _trials(connection, app, experiment, after, limit))

    async def put_shadow(self, key: SessionKey, sequence: int, selection: Selection) -> bool:
        body = selection.model_dump_json(exclude_defaults=True)
        return await self._executor.write(lambda connection: _put_shadow(connection, key, sequence, body))


def _all(connection: Connection, app: str) -> list[ExperimentRecord]:
    rows = connection.execute(_ALL, {"at_app": app})
    return [ExperimentRecord.model_validate_json(row.body).replace(version=row.version) for row in rows]


def _replace(connection: Connection, app: str, record: ExperimentRecord, new: ExperimentRecord) -> bool:
    """Inserts a first version, or updates the row if its version is the record's. Returns whether it did."""
    if "\0" in app:
        raise StoreError("The name of an app holds the character NUL.", fix="Leave it out.")
    body = new.model_dump_json(exclude={"version"})
    values: dict[str, Any] = {"at_app": app, "at_name": record.name, "at_version": record.version}
    if record.version:
        return connection.execute(_REPLACE, {**values, "new_version": new.version, "new_body": body}).rowcount == 1
    row = {"app": app, "name": record.name, "version": new.version, "body": body}
    insert = insert_for(connection.dialect.name, experiments).values(row).on_conflict_do_nothing().returning(_x.name)
    return connection.execute(insert).first() is not None


def _put_shadow(connection: Connection, key: SessionKey, sequence: int, body: str) -> bool:
    place = place_of(connection, key, sequence)
    # PostgreSQL's texts cannot hold NUL, which JSON escapes.
    return place is not None and connection.execute(_PUT_SHADOW, {**place, "new_shadow": body}).rowcount == 1


def _page(experiment: str | None) -> Select[Any]:
    """Returns the query for a page of decisions of an experiment, or of all decisions with a shadow."""
    is_wanted = _HAS_SHADOW if experiment is None else _d.experiment == bindparam("at_experiment")
    joined = decisions.join(sessions, (_s.owner == _d.owner) & (_s.number == _d.session))
    columns = (_d.owner, _d.session, _d.sequence, _d.id, _d.arm, _d.agent, _d.outcome, _d.state, _d.fingerprint, _d.label)
    found = select(*columns, _d.created_at, _d.record, _d.shadow, _s.user_id, _s.session_id).select_from(joined)
    found = found.where(_d.app == bindparam("at_app"), _d.id > bindparam("after"), is_wanted)
    return found.order_by(_d.id).limit(bindparam("at_most"))


def _trials(connection: Connection, app: str, experiment: str | None, after: str | None, limit: int) -> Page[Trial]:
    """Returns a page of decided messages with their labels, oldest first."""
    check_limit(limit)
    values: dict[str, Any] = {"at_app": app, "at_experiment": experiment, "after": 0, "at_most": limit + 1}
    if after is not None:
        (values["after"],) = read_cursor("trials", after, int)
    if experiment is None:
        del values["at_experiment"]
    rows = connection.execute(_page(experiment), values).all()
    given = _labels_of(connection, [row for row in rows[:limit] if row.label is not None])
    found = tuple(_trial(app, row, given.get((row.owner, row.session, row.sequence), ())) for row in rows[:limit])
    return Page(found, cursor("trials", rows[limit - 1].id) if len(rows) > limit else None)


def _trial(app: str, row: AnyRow, given: Sequence[TrialLabel]) -> Trial:
    """Returns the decided message that a row holds."""
    tree = _TREE.search(row.record)
    return Trial(
        key=SessionKey(app, row.user_id, row.session_id),
        sequence=row.sequence,
        arm=row.arm,
        agent=row.agent,
        outcome=row.outcome,
        state=row.state,
        fingerprint=row.fingerprint,
        tree_version=tree[1] if tree is not None else "",
        at=moment(row.created_at),
        labels=tuple(given),
        shadow=Selection.model_validate_json(row.shadow) if row.shadow is not None else None,
    )


def _labels_of(connection: Connection, rows: Sequence[AnyRow]) -> dict[tuple[int, int, int], list[TrialLabel]]:
    """Returns the labels of decisions: the operators' first, then the others, the heaviest first."""
    found: defaultdict[tuple[int, int, int], list[TrialLabel]] = defaultdict(list)
    columns = (_l.owner, _l.session, _l.sequence, _l.label, _l.source, _l.picked, _l.weight, _l.labelled_at, _l.id)
    for start in range(0, len(rows), _LABELS_AT_ONCE):
        places = [
            and_(_l.owner == row.owner, _l.session == row.session, _l.sequence == row.sequence)
            for row in rows[start : start + _LABELS_AT_ONCE]
        ]
        given = connection.execute(select(*columns).where(or_(*places))).all()
        for row in sorted(given, key=lambda row: (row.source != OPERATOR, -row.weight, -row.id)):
            found[row.owner, row.session, row.sequence].append(
                TrialLabel(agent=row.label, source=row.source, picked=row.picked, weight=row.weight, at=moment(row.labelled_at))
            )
    return found
