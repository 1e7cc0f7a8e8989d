"""Background jobs as rows: stored by the append that requests them, claimed by one process at a time."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, Connection, Double, and_, bindparam, delete, false, func, not_, or_, select, update

from turnwise.facts.events import JobRequest
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import BackgroundJob, Lease
from turnwise.stores.sql.clock_watch import ClockWatch
from turnwise.stores.sql.cursors import check_limit
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.rows import AnyRow
from turnwise.stores.sql.tables import clock, column_params, insert_for, is_session, jobs, session_params, sessions
from turnwise.stores.sql.threads import Executor

_j, _s = jobs.c, sessions.c

_seconds: BindParameter[float] = bindparam("seconds", type_=Double())
# As for a session's lease: a clock further before the start than the lease is long was set back. A claim from before the clock
# was set is compared with the clock as it was.
_IS_RESTING = or_(
    *(
        func.coalesce(and_(now < _j.ends, now >= 2 * _j.since - _j.ends), false())
        for now in (clock(), clock() - bindparam("moved", type_=Double()))
    )
)
_FOR_SECONDS: dict[str, Any] = {"since": clock(), "ends": clock() + _seconds}
_IS_HELD = _j.holder == bindparam("at_holder")
_session_row = select(_s.id).where(is_session()).scalar_subquery()
_IS_ONE = and_(_j.session == _session_row, _j.kind == bindparam("at_kind"), _j.event_id == bindparam("at_event"), _IS_HELD)

_DUE = select(_j.id).where(_j.app == bindparam("at_jobs_app"), not_(_IS_RESTING)).order_by(_j.id).limit(bindparam("at_most"))
# Skips rows that another process is claiming. On SQLite there is one writer anyway.
_DUE_AND_FREE = _DUE.with_for_update(of=jobs, skip_locked=True)
_CLAIM = (
    update(jobs)
    .where(_j.id.in_(bindparam("ids", expanding=True)))
    .values(holder=bindparam("at_holder"), attempts=_j.attempts + 1, **_FOR_SECONDS)
)
_JOB = select(_s.app, _s.user_id, _s.session_id, _j.agent, _j.event_id, _j.attempts, _j.body).join(
    sessions, _s.id == _j.session
)
_CLAIMED = _JOB.where(_j.id.in_(bindparam("ids", expanding=True))).order_by(_j.id)
_RENEW = update(jobs).where(_IS_HELD).values(**_FOR_SECONDS)
_HELD = _JOB.where(_IS_HELD).order_by(_j.id)
_PUT_BACK = update(jobs).where(_IS_ONE).values(holder=None, attempts=_j.attempts - bindparam("uncounted"), **_FOR_SECONDS)
_FINISH = delete(jobs).where(_IS_ONE)
_DELETE_HIDDEN = delete(jobs).where(_j.session == bindparam("at_row"), _j.until_sequence >= bindparam("at_from"))


class SqlJobs:
    """The store's background jobs."""

    def __init__(self, executor: Executor, watch: ClockWatch) -> None:
        self._executor, self._watch = executor, watch

    async def claim(self, app: str, lease: Lease, *, limit: int) -> Sequence[BackgroundJob]:
        check_limit(limit)
        params = {"at_jobs_app": app, "at_most": limit}

        def due(connection: Connection) -> Sequence[Any]:
            moved = self._watch.moved(connection, lease.seconds)
            return connection.execute(_DUE, params | {"moved": moved}).all()

        if not await self._executor.read(due):
            return ()
        return await self._executor.write(lambda connection: _claim(connection, params, lease, self._watch))

    async def renew(self, lease: Lease) -> Collection[BackgroundJob]:
        return await self._executor.write(lambda connection: _renew(connection, lease))

    async def put_back(self, job: BackgroundJob, holder: str, *, pause: float = 0.0, counts: bool = True) -> None:
        values = _at(job, holder) | {"seconds": pause, "uncounted": 0 if counts else 1}
        await self._executor.write(lambda connection: connection.execute(_PUT_BACK, values))

    async def finish(self, job: BackgroundJob, holder: str) -> None:
        await self._executor.write(lambda connection: connection.execute(_FINISH, _at(job, holder)))


@cache
def _insert(dialect: str) -> PreparedStatement:
    inserted = insert_for(dialect, jobs).values(
        column_params(jobs, "id", "attempts", "holder", "since", "ends") | {"attempts": 0}
    )
    return PreparedStatement(inserted.on_conflict_do_nothing(index_elements=["session", "kind", "agent"]))


def insert_jobs(connection: Connection, row_id: int, requested: Sequence[Mapping[str, Any]]) -> None:
    """Stores the requested jobs, except those of which the agent already has an open one."""
    _insert(connection.dialect.name).run_many(connection, [{**job, "session": row_id} for job in requested])


def delete_hidden(connection: Connection, row_id: int, hidden_from: int) -> None:
    """Deletes the jobs whose events are hidden from this sequence number on."""
    connection.execute(_DELETE_HIDDEN, {"at_row": row_id, "at_from": hidden_from})


def _claim(connection: Connection, params: dict[str, Any], lease: Lease, watch: ClockWatch) -> list[BackgroundJob]:
    moved = watch.moved(connection, lease.seconds)
    ids = list(connection.execute(_DUE_AND_FREE, params | {"moved": moved}).scalars())
    if not ids:
        return []
    connection.execute(_CLAIM, {"ids": ids, "at_holder": lease.holder, "seconds": lease.seconds})
    return [_job(row) for row in connection.execute(_CLAIMED, {"ids": ids})]


def _renew(connection: Connection, lease: Lease) -> list[BackgroundJob]:
    connection.execute(_RENEW, {"at_holder": lease.holder, "seconds": lease.seconds})
    return [_job(row) for row in connection.execute(_HELD, {"at_holder": lease.holder})]


def _job(row: AnyRow) -> BackgroundJob:
    key = SessionKey(row.app, row.user_id, row.session_id)
    return BackgroundJob(key, row.agent, row.event_id, JobRequest.model_validate_json(row.body), row.attempts)


def _at(job: BackgroundJob, holder: str) -> dict[str, Any]:
    return session_params(job.key) | {"at_kind": job.request.kind, "at_event": job.event_id, "at_holder": holder}
