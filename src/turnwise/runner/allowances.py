"""Checks how much one session and one user may store, and saves artifacts within that (the storage limits in `Limits`)."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pydantic import JsonValue
from pydantic_core import to_json

from turnwise.facts.content import BlobPart
from turnwise.facts.errors import ForksUsed, LimitReached, SessionFull, SessionsUsed, StateFull, StorageUsed
from turnwise.facts.limits import Limits
from turnwise.facts.messages import Message
from turnwise.facts.sessions import USER_PREFIX, Session, SessionKey, merge, split_state
from turnwise.ports.maintenance import Usage
from turnwise.ports.stores import Artifact, ArtifactInfo, ArtifactStore, SessionStore

USAGE_SECONDS = 10.0
"""How long a user's usage is remembered. Another process's writes count after this time at the latest."""
MOST_USERS = 10_000
"""The number of users whose usage is remembered."""
_FIX = "Delete sessions, memory or artifacts, or raise limits.{}."

_Infos = tuple[ArtifactInfo, ...]  # named here, because inside the class `list` is the method


class _Known(NamedTuple):
    """A user's usage."""

    bytes: int
    """The bytes of sessions, memory and artifacts, with what this process saved since."""
    memories: int
    """The entries of the memory, with what this process noted since."""
    read_at: float
    sizes: dict[str, int]
    """The sizes of sessions that this process has seen since, by id: what they grow by counts at once."""


class Allowances:
    """Checks the limits of what sessions and users store.

    Only a usage that was just read refuses anything, so a deletion helps at once.

    Args:
        store: The sessions.
        artifacts: The artifacts, which count with the sessions; None means that there are none.
        clock: Monotonic seconds.
    """

    def __init__(
        self, store: SessionStore, artifacts: ArtifactStore | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._artifacts, self._clock = store, artifacts, clock
        self._known: dict[tuple[str, str], _Known] = {}

    async def check_message(self, session: Session, message: Message, limits: Limits, *, saved: bool = False) -> None:
        """Checks a message, its files and the state that it brings before anything is stored.

        Args:
            saved: Whether its files are saved already.

        Raises:
            SessionFull: The log has reached its limit.
            StateFull: The state would exceed its limit.
            SessionsUsed: The session is new, and the user has as many as allowed.
            StorageUsed: The user's storage has reached its limit.
        """
        check_log(session, limits)
        check_state(session, message.context.state, limits)
        self._count_growth(session)
        files = 0 if saved else sum(len(part.data) for part in message.content.parts if isinstance(part, BlobPart))
        if session.revision == 0:
            await self.check_new(session.key, limits, more=files)
        else:
            await self.check_storage(session.key, limits, more=files)
        self._count_growth(session)

    async def check_new(self, key: SessionKey, limits: Limits, *, fork: bool = False, more: int = 0) -> None:
        """Checks whether the user may have one more session.

        Args:
            fork: Whether it is a fork.
            more: The bytes that come with it.

        Raises:
            SessionsUsed: The user has as many sessions as allowed.
            ForksUsed: The user has as many forks as allowed.
            StorageUsed: The user's storage has reached its limit.
        """
        usage = await self._store.maintenance.usage(key.app, key.user)
        if usage.sessions >= limits.sessions:
            problem = f"This user has {usage.sessions:,} sessions, {limits.sessions:,} are allowed."
            raise SessionsUsed(problem, fix="Delete one, or raise limits.sessions.")
        if fork and usage.forks >= limits.forks:
            problem = f"This user has {usage.forks:,} forks, {limits.forks:,} are allowed."
            raise ForksUsed(problem, fix="Delete one, or raise limits.forks.")
        if self._remembered(key) is None:
            await self._read(key, usage)
        await self.check_storage(key, limits, more=more)

    async def check_storage(self, key: SessionKey, limits: Limits, *, more: int = 0) -> None:
        """Checks whether the user may store `more` bytes; 0 means any. Raises StorageUsed."""
        known = self._remembered(key)
        if known is None or known + max(more, 1) > limits.user_bytes:
            known = await self._read(key, await self._store.maintenance.usage(key.app, key.user))
        if known + max(more, 1) > limits.user_bytes:
            problem = f"This user's sessions, memory and artifacts have {known:,} bytes, {limits.user_bytes:,} are allowed."
            raise StorageUsed(problem, fix=_FIX.format("user_bytes"))

    async def check_memory(self, key: SessionKey, limits: Limits, *, entries: int, size: int) -> None:
        """Checks whether the user may store this number of entries with these bytes. Raises StorageUsed."""
        if not await self.has_memory_room(key, limits, entries=entries):
            problem = f"This user's memory may have {limits.memory_entries:,} entries."
            raise StorageUsed(problem, fix="Forget some of them, or raise limits.memory_entries.")
        await self.check_storage(key, limits, more=size)

    async def has_memory_room(self, key: SessionKey, limits: Limits, *, entries: int) -> bool:
        """Returns whether the user's memory has room for this number of entries, and counts them if it has."""
        known = self._fresh(key)
        if known is None or known.memories + entries > limits.memory_entries:
            await self._read(key, await self._store.maintenance.usage(key.app, key.user))
            known = self._known[key.app, key.user]
        if known.memories + entries > limits.memory_entries:
            return False
        self._known[key.app, key.user] = known._replace(memories=known.memories + entries)
        return True

    def add(self, key: SessionKey, size: int) -> None:
        """Counts bytes that were stored just now."""
        known = self._known.get((key.app, key.user))
        if known is not None:
            self._known[key.app, key.user] = known._replace(bytes=known.bytes + size)

    def _count_growth(self, session: Session) -> None:
        """Counts what the session has grown by since this process saw it last."""
        known = self._known.get((session.app, session.user))
        if known is not None:
            before = known.sizes.get(session.id, session.bytes)
            known.sizes[session.id] = session.bytes
            self.add(session.key, max(session.bytes - before, 0))

    def _remembered(self, key: SessionKey) -> int | None:
        known = self._fresh(key)
        return None if known is None else known.bytes

    def _fresh(self, key: SessionKey) -> _Known | None:
        known = self._known.get((key.app, key.user))
        return None if known is None or self._clock() - known.read_at >= USAGE_SECONDS else known

    async def _read(self, key: SessionKey, usage: Usage) -> int:
        """Adds the artifacts' bytes to the usage just read, remembers it for the user, and returns the total bytes."""
        now = self._clock()
        artifacts = 0 if self._artifacts is None else await self._artifacts.used_bytes(key.app, key.user)
        if len(self._known) >= MOST_USERS:
            self._known.pop(next(iter(self._known)))
        self._known.pop((key.app, key.user), None)
        self._known[key.app, key.user] = _Known(usage.bytes + artifacts, usage.memories, now, {})
        return usage.bytes + artifacts


def check_log(session: Session, limits: Limits, *, events: int = 0, size: int = 0) -> None:
    """Checks whether the session's log has room, also for these events. Raises SessionFull."""
    full_events = session.last_sequence >= limits.session_events or session.last_sequence + events > limits.session_events
    if full_events:
        amount, limit = f"{session.last_sequence:,} events", f"{limits.session_events:,} are allowed"
    elif session.bytes >= limits.session_bytes or session.bytes + size > limits.session_bytes:
        amount, limit = f"{session.bytes:,} bytes of events", f"{limits.session_bytes:,} are allowed"
    else:
        return
    name = "session_events" if full_events else "session_bytes"
    problem = f"Session {session.id!r} has {amount}, {limit}."
    raise SessionFull(problem, fix=f"Begin a new session, or raise limits.{name}.")


def check_state(session: Session, delta: Mapping[str, JsonValue], limits: Limits) -> None:
    """Checks the size of the session's and the user's state after a delta of a caller. Raises StateFull."""
    over = _state_over(session, delta, limits)
    if over is not None:
        raise StateFull(over.problem, fix=over.fix)


def check_agent_state(session: Session, delta: Mapping[str, JsonValue], limits: Limits) -> None:
    """Checks as `check_state` does, for a delta of an agent. Raises LimitReached."""
    over = _state_over(session, delta, limits)
    if over is not None:
        raise LimitReached(over.name, over.problem, fix=over.fix)


class _StateOver(NamedTuple):
    """A limit of the state that a delta exceeds."""

    name: str
    problem: str

    @property
    def fix(self) -> str:
        return f"Remove keys, keep large values as artifacts, or raise limits.{self.name}."


async def copied_bytes(store: ArtifactStore, key: SessionKey) -> int:
    """Returns the size of all versions of the session's own artifacts, which a fork copies."""
    names = [info.name for info in await store.list(key) if not info.name.startswith(USER_PREFIX)]
    return sum([info.size for name in names for info in await store.versions(key, name)])


class LimitedArtifacts:
    """Saves as `store` does, but raises StorageUsed when the user's storage has no room.

    Args:
        store: The artifact store.
        allowances: Counts the user's bytes.
        limits: The app's limits.
    """

    def __init__(self, store: ArtifactStore, allowances: Allowances, limits: Limits) -> None:
        self._store, self._allowances, self._limits = store, allowances, limits

    async def save(
        self, key: SessionKey, name: str, data: bytes, *, mime_type: str = "application/octet-stream"
    ) -> ArtifactInfo:
        """Saves as `ArtifactStore.save`, if the user's storage has room for the data, and counts it. Raises StorageUsed."""
        await self._allowances.check_storage(key, self._limits, more=len(data))
        info = await self._store.save(key, name, data, mime_type=mime_type)
        self._allowances.add(key, len(data))
        return info

    async def load(self, key: SessionKey, name: str, *, version: int | None = None) -> Artifact | None:
        return await self._store.load(key, name, version=version)

    async def versions(self, key: SessionKey, name: str) -> _Infos:
        return await self._store.versions(key, name)

    async def list(self, key: SessionKey) -> _Infos:
        return await self._store.list(key)

    async def used_bytes(self, app: str, user: str) -> int:
        return await self._store.used_bytes(app, user)

    async def delete(self, key: SessionKey, name: str) -> None:
        await self._store.delete(key, name)

    async def delete_session(self, key: SessionKey) -> None:
        await self._store.delete_session(key)

    async def delete_user(self, app: str, user: str) -> None:
        await self._store.delete_user(app, user)

    async def close(self) -> None:
        await self._store.close()


def _state_over(session: Session, delta: Mapping[str, JsonValue], limits: Limits) -> _StateOver | None:
    """Returns the limit that the delta exceeds. A delta that makes an oversized state smaller exceeds none."""
    if not delta:
        return None
    scoped = split_state(delta)
    for whose, name, before, changed, most in (
        ("user", "user_state_bytes", session.user_state, scoped.user, limits.user_state_bytes),
        ("session", "session_state_bytes", session.state, scoped.session, limits.session_state_bytes),
    ):
        if not changed:
            continue
        size = _size(merge(before, changed))
        if size > most and size > _size(before):
            return _StateOver(name, f"The {whose}'s state would have {size:,} bytes, {most:,} are allowed.")
    return None


def _size(state: Mapping[str, JsonValue]) -> int:
    return len(to_json(state))
