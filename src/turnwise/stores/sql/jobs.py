"""Background jobs as rows: stored by the append that requests them, claimed by one process at a time."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, Connection, Double, and_, bindparam, delete, exists, false, func, not_, select, update

from turnwise.facts.events import JobRequest
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import BackgroundJob, Lease
from turnwise.stores.sql.heartbeats import Heartbeats
from turnwise.stores.sql.ids import check_limit, new_id
from turnwise.stores.sql.prepared import PreparedStatement
from turnwise.stores.sql.rows import AnyRow
from turnwise.stores.sql.tables import clock, column_params, insert_for, is_session, jobs, processes, session_params, sessions
from turnwise.stores.sql.worker_pool import Executor

_j, _s = jobs.c, sessions.c

_seconds: BindParameter[float] = bindparam("seconds", type_=Double())
# A clock further before the start than the pause is long was set back.
_IS_RESTING = func.coalesce(and_(clock() < _j.ends, clock() >= 2 * _j.since - _j.ends), false())
_FOR_SECONDS: dict[str, Any] = {"since": clock(), "ends": clock() + _seconds}
_IS_HELD = _j.holder == bindparam("at_holder")
_IS_FREE = not_(exists().where(processes.c.name == _j.holder))
_session_number = select(_s.number).where(is_session()).scalar_subquery()
_IS_ONE = and_(
    _j.owner == bindparam("at_owner"),
    _j.session == _session_number,
    _j.kind == bindparam("at_kind"),
    _j.event_id == bindparam("at_event"),
    _IS_HELD,
)

_DUE = (
    select(_j.id)
    .where(_j.app == bindparam("at_jobs_app"), _IS_FREE, not_(_IS_RESTING))
    .order_by(_j.id)
    .limit(bindparam("at_most"))
)
# Skips rows that another process is claiming. On SQLite there is one writer anyway.
_DUE_AND_FREE = _DUE.with_for_update(of=jobs, skip_locked=True)
_IS_CHOSEN = and_(_j.app == bindparam("at_jobs_app"), _j.id.in_(bindparam("ids", expanding=True)))
_CLAIMED_BY: dict[str, Any] = {"holder": bindparam("at_holder"), "since": None, "ends": None}
# Checked again under the lock: a holder's heartbeat may be newer than the query that chose the rows.
_CLAIM = update(jobs).where(_IS_CHOSEN, _IS_FREE).values(attempts=_j.attempts + 1, **_CLAIMED_BY)
_JOB = select(_s.app, _s.user_id, _s.session_id, _j.agent, _j.event_id, _j.attempts, _j.body).join(
    sessions, and_(_s.owner == _j.owner, _s.number == _j.session)
)
_CLAIMED = _JOB.where(_IS_CHOSEN, _IS_HELD).order_by(_j.id)
_HELD = _JOB.where(_IS_HELD).order_by(_j.id)
_PUT_BACK = update(jobs).where(_IS_ONE).values(holder=None, attempts=_j.attempts - bindparam("uncounted"), **_FOR_SECONDS)
_FINISH = delete(jobs).where(_IS_ONE)
_DELETE_HIDDEN = delete(jobs).where(
    _j.owner == bindparam("at_owner"), _j.session == bindparam("at_session"), _j.until_sequence >= bindparam("at_from")
)


class SqlJobs:
    """The store's background jobs."""

    def __init__(self, executor: Executor, heartbeats: Heartbeats) -> None:
        self._executor, self._heartbeats = executor, heartbeats

    async def claim(self, app: str, lease: Lease, *, limit: int) -> Sequence[BackgroundJob]:
        """Claims due jobs for the lease's holder, the oldest first."""
        check_limit(limit)
        params = {"at_jobs_app": app, "at_most": limit}
        if not await self._executor.read(lambda connection: connection.execute(_DUE, params).all()):
            return ()
        await self._heartbeats.join(lease)
        return await self._executor.write(lambda connection: _claim(connection, params | {"at_holder": lease.holder}))

    async def held(self, holder: str) -> Collection[BackgroundJob]:
        found = await self._executor.read(lambda connection: connection.execute(_HELD, {"at_holder": holder}).all())
        return [_job(row) for row in found]

    async def put_back(self, job: BackgroundJob, holder: str, *, pause: float = 0.0, counts: bool = True) -> None:
        values = _at(job, holder) | {"seconds": pause, "uncounted": 0 if counts else 1}
        await self._executor.write(lambda connection: connection.execute(_PUT_BACK, values))

    async def finish(self, job: BackgroundJob, holder: str) -> None:
        await self._executor.write(lambda connection: connection.execute(_FINISH, _at(job, holder)))


@cache
def _insert(dialect: str) -> PreparedStatement:
    inserted = insert_for(dialect, jobs).values(column_params(jobs, "attempts", "holder", "since", "ends") | {"attempts": 0})
    return PreparedStatement(inserted.on_conflict_do_nothing(index_elements=["owner", "session", "kind", "agent"]))


def insert_jobs(connection: Connection, requested: Sequence[Mapping[str, Any]]) -> None:
    """Stores the requested jobs, except those of which the agent already has an open one."""
    _insert(connection.dialect.name).run_many(connection, [{**job, "id": new_id()} for job in requested])


def delete_hidden(connection: Connection, owner: int, session: int, hidden_from: int) -> None:
    """Deletes the jobs whose events are hidden from this sequence number on."""
    connection.execute(_DELETE_HIDDEN, {"at_owner": owner, "at_session": session, "at_from": hidden_from})


def _claim(connection: Connection, params: dict[str, Any]) -> list[BackgroundJob]:
    """Claims the due jobs that no other transaction has locked."""
    ids = list(connection.execute(_DUE_AND_FREE, params).scalars())
    if not ids:
        return []
    chosen = {"ids": ids, "at_jobs_app": params["at_jobs_app"], "at_holder": params["at_holder"]}
    connection.execute(_CLAIM, chosen)
    return [_job(row) for row in connection.execute(_CLAIMED, chosen)]


def _job(row: AnyRow) -> BackgroundJob:
    key = SessionKey(row.app, row.user_id, row.session_id)
    return BackgroundJob(key, row.agent, row.event_id, JobRequest.model_validate_json(row.body), row.attempts)


def _at(job: BackgroundJob, holder: str) -> dict[str, Any]:
    return session_params(job.key) | {"at_kind": job.request.kind, "at_event": job.event_id, "at_holder": holder}
