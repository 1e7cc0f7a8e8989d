"""The session store on SQLite or PostgreSQL, and its maintenance."""

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue
from sqlalchemy import Connection
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from turnwise.facts.errors import ConfigError, StaleWriter
from turnwise.facts.events import Event
from turnwise.facts.ids import Issuer, SystemIssuer
from turnwise.facts.messages import Message
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.decisions import (
    Decisions,
    Labels,
    Page,
)
from turnwise.ports.definitions import Definitions
from turnwise.ports.experiments import Experiments
from turnwise.ports.key_store import Counters, Keys
from turnwise.ports.maintenance import Maintenance, Usage
from turnwise.ports.memory import MemoryStore
from turnwise.ports.pushes import Pushes
from turnwise.ports.records import Audit, Holds
from turnwise.ports.rests import Rests
from turnwise.ports.retention import Pruned, Retention
from turnwise.ports.signals import Signals
from turnwise.ports.stores import Inbox, Jobs, Lease, Leases, SessionInfo
from turnwise.stores.sql import catalog, leases, log, removals, schema, sqlite
from turnwise.stores.sql.append_plan import AppendPlan, Rewound, first_hidden, hides_events, plan_append
from turnwise.stores.sql.decisions import SqlDecisions
from turnwise.stores.sql.definitions import SqlDefinitions
from turnwise.stores.sql.errors import Duplicate
from turnwise.stores.sql.experiments import SqlExperiments
from turnwise.stores.sql.heartbeats import Heartbeats
from turnwise.stores.sql.inbox import SqlInbox
from turnwise.stores.sql.index_cache import SqlIndexCache
from turnwise.stores.sql.jobs import SqlJobs
from turnwise.stores.sql.key_store import ClockWatch, SqlCounters, SqlKeys
from turnwise.stores.sql.labels import SqlLabels
from turnwise.stores.sql.local_signals import LocalSignals
from turnwise.stores.sql.memory import SqlMemory
from turnwise.stores.sql.postgres import PostgresExecutor
from turnwise.stores.sql.postgres_signals import PostgresSignals
from turnwise.stores.sql.pruning import Pruner
from turnwise.stores.sql.pushes import SqlPushes
from turnwise.stores.sql.records import SqlAudit, SqlHolds
from turnwise.stores.sql.rests import SqlRests
from turnwise.stores.sql.rows import Removal, time_text
from turnwise.stores.sql.spans import ClearedUpTo, Spans, clear_states, pending_rewinds
from turnwise.stores.sql.sqlite import SqliteExecutor
from turnwise.stores.sql.worker_pool import PATIENCE, Executor

Events = list[Event]
"""An alias, because inside the class `list` is the method."""

FORK_TRIES = 5
POLL_SECONDS = 0.05
"""How often waiting readers poll a SQLite file, which cannot notify other processes."""
SQLITE = frozenset({"sqlite", "sqlite+pysqlite"})
POSTGRESQL = frozenset({"postgresql", "postgres", "postgresql+psycopg"})
KNOWN = "Use sqlite:///path/to/file.db, sqlite:// (in memory) or postgresql://user:password@host/database."


class SqlSessionStore:
    """Stores sessions in a database: `sqlite:///file.db`, `sqlite://` (in memory) or `postgresql://user@host/name`.

    It connects at the first call, then creates its tables or migrates older ones. It may be used from several event loops.
    The first lease starts a thread that renews its holder's heartbeat. A rewind does not change the app's and the user's state.

    Args:
        url: The database.
        issuer: Gives the time of records.
        patience: How many seconds a call waits for a database that is unreachable or locked, before StoreUnavailable.
        clock: Monotonic seconds, by which changes of the database's clock are noticed.

    Raises:
        ConfigError: The URL names another kind of database.
    """

    def __init__(
        self,
        url: str,
        *,
        issuer: Issuer | None = None,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = _parsed(url)
        kind = SqliteExecutor if self._url.drivername in SQLITE else PostgresExecutor
        self._executor: Executor = kind(self._url, patience=patience)
        self._signals: Signals | None = None
        self._lock = threading.Lock()
        self._issuer = issuer or SystemIssuer()
        self._inbox, self._decisions = SqlInbox(self._executor, self._issuer), SqlDecisions(self._executor, self._issuer)
        self._maintenance = SqlMaintenance(self._executor, self._url)
        store = weakref.ref(self)
        self._heartbeats = Heartbeats(self._executor, self._issuer, lambda: _wake_watchers(store))
        self._leases, self._jobs = leases.SqlLeases(self._executor, self._heartbeats), SqlJobs(self._executor, self._heartbeats)
        self._keys, self._memory = SqlKeys(self._executor), SqlMemory(self._executor)
        self.definitions: Definitions = SqlDefinitions(self._executor)
        self.rests: Rests = SqlRests(self._executor)
        self.experiments: Experiments = SqlExperiments(self._executor, self._issuer)
        self.index_cache = SqlIndexCache(self._executor, ClockWatch(clock))
        self._counters = SqlCounters(self._executor, ClockWatch(clock))
        self._pushes = SqlPushes(self._executor, self._heartbeats, self._issuer)
        self._labels = SqlLabels(self._executor, self._issuer)
        self._holds = SqlHolds(self._executor, self._issuer)
        self._audit = SqlAudit(self._executor, self._issuer)

    @property
    def is_unmade(self) -> bool:
        """True if the database is a SQLite file that does not exist yet. The first call makes it."""
        file = self._url.database
        return self._url.drivername in SQLITE and file not in {None, "", ":memory:"} and not Path(str(file)).exists()

    @property
    def inbox(self) -> Inbox:
        return self._inbox

    @property
    def decisions(self) -> Decisions:
        return self._decisions

    @property
    def leases(self) -> Leases:
        return self._leases

    @property
    def jobs(self) -> Jobs:
        return self._jobs

    @property
    def keys(self) -> Keys:
        return self._keys

    @property
    def counters(self) -> Counters:
        return self._counters

    @property
    def pushes(self) -> Pushes:
        return self._pushes

    @property
    def memory(self) -> MemoryStore:
        return self._memory

    @property
    def labels(self) -> Labels:
        return self._labels

    @property
    def holds(self) -> Holds:
        return self._holds

    @property
    def audit(self) -> Audit:
        return self._audit

    @property
    def maintenance(self) -> Maintenance:
        return self._maintenance

    @property
    def signals(self) -> Signals:
        with self._lock:
            self._signals = self._signals or _make_signals(self._url)
            return self._signals

    async def create(self, key: SessionKey, *, state: dict[str, JsonValue] | None = None) -> Session:
        now = time_text(self._issuer.now())
        job = partial(catalog.create, key=key, state=state or {}, now=now)
        return await self._executor.write(job, repeatable=False)

    async def open(self, key: SessionKey, *, blank: bool = False) -> Session | None:
        """Returns the session, or a blank one. First waits until it is known whether its holder lives."""
        now = self._issuer.now() if blank else None
        job = partial(catalog.open_session, key=key, blank_at=now)
        session = await self._executor.read(job)
        if session is None or session.holder is None or not self._heartbeats.is_unsure_of(session.holder):
            return session
        await self._heartbeats.settle()
        return await self._executor.read(job)

    async def events(
        self,
        key: SessionKey,
        *,
        after: int = 0,
        before: int | None = None,
        last: int | None = None,
        limit: int | None = None,
        invocation_id: str | None = None,
        hidden: bool = False,
        transcript: bool = False,
        max_bytes: int | None = None,
    ) -> Events:
        """Returns a window of the session's events in order."""
        if (last is not None and last < 0) or (limit is not None and limit < 0):
            raise ValueError(f"A number of events is not negative: last={last}, limit={limit}.")
        window = log.Window(after, before, last, limit, invocation_id, hidden, transcript, max_bytes)
        return await self._executor.read(lambda connection: log.read_events(connection, key, window))

    async def begin(
        self,
        session: Session,
        lease: Lease,
        message: Message,
        events: Sequence[Event],
        *,
        queue_limit: int | None,
        new: bool = False,
        revision: int | None = None,
    ) -> Session:
        """Takes the lease and stores the message with its first events, in one transaction."""
        plan, now = await self._plan(session, events), time_text(self._issuer.now())
        started = leases.start_of(session, message, events)
        start = leases.BeginRequest(lease, message, started, queue_limit, now, new, revision)
        await self._heartbeats.join(lease)
        try:
            if session.queued and not new:
                # In the usual case this takes two statements instead of seven.
                with suppress(leases.NotNext):
                    return await self._executor.write(lambda connection: leases.begin_oldest(connection, plan, start))
            begun = await self._executor.write(lambda connection: leases.begin(connection, plan, start))
        except Duplicate:
            raise _already_stored(session) from None
        if isinstance(begun, Session):
            return begun
        raise begun

    async def take(
        self,
        session: Session,
        lease: Lease,
        events: Sequence[Event],
        *,
        release: bool = False,
        empty_inbox: bool = False,
    ) -> Session:
        """Takes the lease and appends; events that are stored already are left out."""
        try:
            return await self._take(session, lease, events, release=release, empty_inbox=empty_inbox)
        except Duplicate:
            new = await self._not_stored(session.key, events)
            return await self._take(session, lease, new, release=release, empty_inbox=empty_inbox)

    async def append(self, session: Session, events: Sequence[Event], *, release: bool = False) -> Session:
        """Appends under the lease; events that are stored already are left out."""
        try:
            return await self._append(session, events, release)
        except (Duplicate, StaleWriter):
            # The retry is for calls whose events are partly stored. A stale session fails again.
            new = await self._not_stored(session.key, events)
            if new or not events:
                return await self._append(session, new, release)
        if release:
            await self._leases.release(session)
        current = await self.open(session.key)
        if current is None:
            raise log.session_missing(session.key)
        # Another holder may have a newer epoch by now, which this caller must not get.
        return current.replace(epoch=session.epoch)

    async def list(self, app: str, *, user: str | None = None, after: str | None = None, limit: int = 50) -> Page[SessionInfo]:
        return await self._executor.read(lambda connection: catalog.list_sessions(connection, app, user, after, limit))

    async def delete(self, key: SessionKey, *, revision: int | None = None, actor: str = "") -> bool:
        now = time_text(self._issuer.now())
        job = partial(removals.hide_session, key=key, revision=revision, actor=actor, now=now)
        removal = await self._executor.write(job, repeatable=revision is None)
        await self._maintenance.remove(removal)
        return removal is not None

    async def delete_user(self, app: str, user: str, *, actor: str = "") -> None:
        now = time_text(self._issuer.now())
        removal = await self._executor.write(lambda connection: removals.hide_user(connection, app, user, actor, now))
        await self._maintenance.remove(removal)

    async def prune(
        self, app: str, retention: Retention, *, now: datetime, after: str | None = None, dry_run: bool = False
    ) -> Pruned:
        return await Pruner(self._executor, self._maintenance.remove).step(app, retention, now, after, dry_run=dry_run)

    async def fork(
        self, key: SessionKey, new_id: str, *, before_invocation: str | None = None, revision: int | None = None
    ) -> Session:
        """Copies the session, by reference to its log. Tries again if it is rewound meanwhile."""
        for _ in range(FORK_TRIES):
            source = await self._executor.read(lambda connection: catalog.origin(connection, key))
            if revision is not None and (source.session.revision != revision or source.session.queued):
                raise log.stale(key)
            fork = await self._inherit(source, new_id, before_invocation)
            job = partial(catalog.write_fork, source=source, fork=fork, now=time_text(self._issuer.now()))
            try:
                return await self._executor.write(job, repeatable=False)
            except catalog.LogChanged:
                continue
        raise StaleWriter(f"Session {key.id!r} kept being rewound while it was forked.", fix="Fork it again.")

    async def close(self) -> None:
        if self._signals is not None:
            await self._signals.close()
        await self._heartbeats.close()
        self.index_cache.close()
        await self._executor.close()

    async def _plan(self, session: Session, events: Sequence[Event]) -> AppendPlan:
        """Plans an append. A rewind folds the visible events again."""
        if not hides_events(session, events):
            return plan_append(session, events)
        # The write checks the revision, and nothing read here changes without it.
        source = await self._executor.read(lambda connection: catalog.origin(connection, session.key))
        hidden_from = first_hidden(session, events)
        if hidden_from is None:
            return plan_append(session, events, Rewound(session, source.spans))
        visible = await self._fold(source, source.spans, hidden_from)
        rewound = visible.replace(last_sequence=session.last_sequence)
        return plan_append(session, events, Rewound(rewound, source.spans))

    async def _take(
        self, session: Session, lease: Lease, events: Sequence[Event], *, release: bool, empty_inbox: bool
    ) -> Session:
        """Plans and carries out one `take`."""
        plan = await self._plan(session, events)
        if not release:
            await self._heartbeats.join(lease)
        job = partial(leases.take, plan=plan, lease=lease, release=release, empty_inbox=empty_inbox)
        return await self._executor.write(job)

    async def _append(self, session: Session, events: Sequence[Event], release: bool) -> Session:
        plan = await self._plan(session, events)
        return await self._executor.write(lambda connection: log.append(connection, plan, release=release))

    async def _not_stored(self, key: SessionKey, events: Sequence[Event]) -> Events:
        ids = tuple(dict.fromkeys(event.id for event in events))
        stored = await self._executor.read(lambda connection: log.stored_ids(connection, key, ids))
        new = {event.id: event for event in reversed(events)}
        return [new[id_] for id_ in ids if id_ not in stored]

    async def _inherit(self, source: catalog.Origin, new_id: str, before: str | None) -> catalog.Fork:
        """Returns a fork of all visible events before its end, except those of invocations that are open there."""
        if before is None:
            end, at_end = source.session.last_sequence + 1, source.session
        else:
            end = await self._executor.read(lambda connection: catalog.first_of(connection, source, before))
            at_end = await self._fold(source, source.spans, end)
        open_ = at_end.head.invocations
        if not open_:
            return catalog.new_fork(source, new_id, end, (), at_end)
        left_out = await self._executor.read(lambda connection: catalog.excluded_numbers(connection, source, end, tuple(open_)))
        fork = catalog.new_fork(source, new_id, end, left_out, at_end)
        return fork._replace(session=await self._fold(source, fork.spans, end))

    async def _fold(self, source: catalog.Origin, spans: Spans, end: int) -> Session:
        """Returns the fold of the spans below `end`."""
        progress = await self._executor.read(partial(catalog.start_fold, source=source, spans=spans, end=end))
        while not progress.done:
            step = partial(catalog.fold_more, source=source, spans=spans, end=end, progress=progress)
            progress = await self._executor.read(step)
        return progress.session


def _already_stored(session: Session) -> StaleWriter:
    return StaleWriter(
        f"Session {session.id!r} holds one of these events already; nothing was stored.", fix="Give new events new ids."
    )


def _parsed(url: str) -> URL:
    """Returns the store's URL. Raises ConfigError for an unknown database."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        # The URL is not shown: it may hold a password.
        raise ConfigError("The URL of the session store cannot be read.", fix=KNOWN) from None
    if parsed.drivername not in {*SQLITE, *POSTGRESQL}:
        raise ConfigError(f"The session store does not know databases of the kind {parsed.drivername!r}.", fix=KNOWN)
    return parsed


def _wake_watchers(store: "weakref.ref[SqlSessionStore]") -> None:
    if (found := store()) is not None:
        found.signals.all_changed()


def _make_signals(url: URL) -> Signals:
    return LocalSignals(POLL_SECONDS) if url.drivername in SQLITE else PostgresSignals(url)


T = TypeVar("T")


class SqlMaintenance:
    """The store's upkeep."""

    def __init__(self, executor: Executor, url: URL) -> None:
        self._executor, self._url = executor, url

    def back_up(self, target: Path) -> None:
        sqlite.back_up(self._url, target)

    def empty_place(self) -> Path:
        return sqlite.empty_place(self._url)

    def restore(self, source: Path) -> None:
        sqlite.restore(self._url, source)

    async def check_writable(self) -> None:
        await self._executor.write(schema.touch)

    async def usage(self, app: str, user: str) -> Usage:
        return await self._executor.read(lambda connection: catalog.usage(connection, app, user))

    async def finish_deletions(self) -> bool:
        """Finishes deletions and rewinds that were begun. Returns whether there were any."""
        pending = await self._executor.read(removals.pending)
        for removal in pending:
            await self.remove(removal)
        rewound = await self._executor.read(pending_rewinds)
        for session in rewound:
            await self._clear(session)
        return bool(pending or rewound)

    async def remove(self, removal: Removal | None) -> None:
        """Deletes the rows of a removal, in short transactions."""
        if removal is not None:
            await self._repeat(lambda _, connection: removals.remove_some(connection, removal) or None, True)

    async def _clear(self, rewound: Removal) -> None:
        """Clears the states that rewinds of the session hide, in short transactions."""
        await self._repeat(lambda state, connection: clear_states(connection, rewound, state), ClearedUpTo())

    async def _repeat(self, step: Callable[[T, Connection], T | None], state: T) -> None:
        """Runs the step on the result of the last one until that is None. After each one it pauses for as long as it took.

        SQLite has one writer: without pauses, other processes would hardly get their turn.
        """
        clock = asyncio.get_running_loop().time
        reached: T | None = state
        while reached is not None:
            began = clock()
            reached = await self._executor.write(partial(step, reached))
            if reached is not None:
                await asyncio.sleep(clock() - began)
