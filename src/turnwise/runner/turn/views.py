"""An agent's views: the history, state and artifacts of its session, and the user's memory."""

import asyncio
import copy
import json
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Iterator, Mapping, Sequence
from datetime import timedelta
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from turnwise.facts.content import BlobPart, TextPart, least_bytes
from turnwise.facts.errors import AgentFailed, ArtifactName, ArtifactTooLarge, ConfigError, LimitReached, StoreError
from turnwise.facts.events import Branch, Event, in_scope
from turnwise.facts.fact import values_of
from turnwise.facts.limits import Limits
from turnwise.facts.memory import FORGOTTEN, Entity, MemoryEntry, MemoryKind, Recalled, Span, Speaker, new_entry
from turnwise.facts.sessions import SessionKey
from turnwise.facts.tree import AgentCard
from turnwise.ports.memory import MemoryFilter, MemoryReader, MemoryStore
from turnwise.ports.stores import Artifact, ArtifactInfo, ArtifactStore, SessionStore
from turnwise.runner.record.journal import current_scope, public_event
from turnwise.runner.turn.agent_checks import Unawaited, as_json, awaited, named, no_attribute
from turnwise.runner.turn.emitter import EventEmitter, Steps
from turnwise.runner.turn.pending_writes import PendingWrites, note_recalled
from turnwise.runner.turn.state import InvocationState

_numbers: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
_next_number = count()


def _number_of(store: SessionStore) -> int:
    """Returns a number of this store that no other store gets, not even after it is gone."""
    try:
        return _numbers.setdefault(store, next(_next_number))
    except TypeError:  # a store that cannot be hashed or referenced: equal to none, so nothing is kept for it
        return next(_next_number)


class HistoryView:
    """The log as an agent on one branch may read it.

    Args:
        sees: The labels that the agent sees; None means all.
    """

    if not TYPE_CHECKING:
        __getattr__ = no_attribute("context.history")

    def __init__(self, invocation: InvocationState, agent: str, branch: Branch, sees: frozenset[str] | None) -> None:
        self._invocation, self._agent, self._branch, self._sees = invocation, agent, branch, sees

    @named("context.history.last")
    async def last(self, count: int = 20) -> list[Event]:
        return await self._window(last=self._bounded(count))

    @named("context.history.after")
    async def after(self, sequence: int, *, limit: int = 100) -> list[Event]:
        return await self._window(after=sequence, limit=self._bounded(limit))

    @named("context.history.backwards")
    async def backwards(self, page: int = 40, *, transcript: bool = False) -> AsyncIterator[list[Event]]:
        """Yields pages of visible events, the newest page first, each in log order, up to `history_events`."""
        left, before = self._invocation.config.limits.history_events, None
        await self._invocation.flush()
        while left > 0:
            asked = max(1, min(page, left))
            events = await self._invocation.store.events(self._invocation.key, before=before, last=asked, transcript=transcript)
            shown = [public_event(event) if event.actions.steps else event for event in self._visible_of(events)]
            if events:
                yield shown
                before = events[0].sequence
            if len(events) < asked:
                return
            left -= len(shown)

    @named("context.history.since")
    async def since(self, event: Event, *, transcript: bool = False) -> list[Event] | None:
        """Returns the visible events after this one; None if the log no longer shows it, or too many follow."""
        await self._invocation.flush()
        limit = self._invocation.config.limits.history_events
        # The event itself is read, too: a rewind that hides an earlier event hides this one.
        found = await self._invocation.store.events(
            self._invocation.key, after=(event.sequence or 0) - 1, limit=limit + 2, transcript=transcript
        )
        if not found or found[0].id != event.id or found[0].sequence != event.sequence or len(found) > limit + 1:
            return None
        return [public_event(each) for each in found[1:] if self._visible(each)]

    @property
    def identity(self) -> Hashable:
        session = self._invocation.recorder.session
        return _number_of(self._invocation.store), session.key, session.created_at, self._agent, self._sees

    def _bounded(self, count: int) -> int:
        return max(0, min(count, self._invocation.config.limits.history_events))

    async def _window(self, *, after: int = 0, last: int | None = None, limit: int | None = None) -> list[Event]:
        await self._invocation.flush()
        events = await self._invocation.store.events(self._invocation.key, after=after, last=last, limit=limit)
        return [public_event(event) for event in events if self._visible(event)]

    def _visible_of(self, events: Sequence[Event]) -> Sequence[Event]:
        """Returns the visible ones of the events. There may be thousands, of few branches, and mostly all are visible."""
        branches = {values_of(event)["branch"] for event in events}
        if self._sees is None and not any(branch.is_private or not self._branch.sees(branch) for branch in branches):
            return events
        return [event for event in events if self._visible(event)]

    def _visible(self, event: Event) -> bool:
        if self._sees is not None and not in_scope(event, self._agent, self._sees):
            return False
        if event.invocation_id == self._invocation.invocation_id:
            return self._branch.sees(event.branch)
        return not event.branch or not event.is_private


class StateView:
    """The merged state with the pending writes of this agent and of other agents."""

    if not TYPE_CHECKING:
        __getattr__ = no_attribute("context.state", "Read context.state[{!r}].")

    def __init__(self, invocation: InvocationState, writes: PendingWrites) -> None:
        self._invocation, self._writes = invocation, writes

    def _merged(self) -> Mapping[str, JsonValue]:
        merged: dict[str, JsonValue] = {**self._invocation.state(), **self._writes.merged()}
        return {key: value for key, value in merged.items() if value is not None}

    def __getitem__(self, key: str) -> Any:
        return _own_copy(self._merged()[key])

    def __setitem__(self, key: str, value: Any) -> None:
        self._writes.write(key, _checked(key, value, self._invocation.config.limits))

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._writes.write(key, None)

    def __contains__(self, key: object) -> bool:
        return key in self._merged()

    def __iter__(self) -> Iterator[str]:
        return iter(self._merged())

    @named("context.state.get")
    def get(self, key: str, default: Any = None) -> Any:
        return _own_copy(self._merged().get(key, default))


def _own_copy(value: Any) -> Any:
    """Returns a copy that the reader may change. Only setting the key again stores a change."""
    return copy.deepcopy(value) if isinstance(value, list | dict) else value


def _checked(key: str, value: object, limits: Limits) -> JsonValue:
    """Returns a JSON copy of a state value. Raises AgentFailed or LimitReached if it cannot be stored."""
    _check_state_size(key, least_bytes(value, limits.state_bytes), limits)
    copied = as_json(f"The state value of {key!r}", value)
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise AgentFailed(f"The state key {key!r} cannot be stored: {error}.", fix="Use text that UTF-8 can write.") from None
    _check_state_size(key, len(json.dumps(copied)), limits)
    return copied


def _check_state_size(key: str, size: int, limits: Limits) -> None:
    if size > limits.state_bytes:
        problem = f"The state value of {key!r} has {size:,} bytes or more, {limits.state_bytes:,} are allowed."
        raise LimitReached("state_bytes", problem, fix="Save it as an artifact.")


def _as_bytes(name: str, data: object) -> tuple[bytes, str]:
    """Returns the data as bytes with its default MIME type. Raises AgentFailed for other types."""
    if isinstance(data, BlobPart):
        return data.data, data.mime_type
    if isinstance(data, TextPart):
        data = data.text
    if isinstance(data, str):
        return data.encode(), "text/plain; charset=utf-8"
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data), "application/octet-stream"
    raise AgentFailed(f"The artifact {name!r} is a {type(data).__name__}.", fix="Save text, bytes, a TextPart or a BlobPart.")


class ArtifactsView:
    """The session's artifacts. The agent's next event records saved versions by name.

    Args:
        allows: Returns whether guardrails allow an artifact's name in the log.
    """

    if not TYPE_CHECKING:
        __getattr__ = no_attribute("context.artifacts")

    def __init__(
        self,
        store: ArtifactStore | None,
        key: SessionKey,
        limits: Limits,
        writes: PendingWrites,
        allows: Callable[[str], Awaitable[bool]],
        unawaited: Unawaited,
    ) -> None:
        self.unawaited = unawaited
        self._store, self._key, self._limits, self._writes, self._allows = store, key, limits, writes, allows

    @awaited("context.artifacts.save")
    async def save(self, name: str, data: "bytes | str | BlobPart | TextPart", *, mime_type: str | None = None) -> ArtifactInfo:
        """Saves a new version of an artifact. Raises ArtifactTooLarge, ArtifactName, or AgentFailed for an unknown type."""
        data, usual = _as_bytes(name, data)
        mime_type = usual if mime_type is None else mime_type
        if len(data) > self._limits.blob_bytes:
            raise ArtifactTooLarge(
                f"The artifact {name!r} has {len(data):,} bytes, {self._limits.blob_bytes:,} are allowed.",
                fix="Raise limits.blob_bytes.",
            )
        if not await self._allows(name):
            raise ArtifactName("A guardrail does not let the artifact's name into the log.", fix="Choose another name.")
        info = await self._required().save(self._key, name, data, mime_type=mime_type)
        self._writes.record_artifact(name, info.version)
        return info

    @awaited("context.artifacts.load")
    async def load(self, name: str, *, version: int | None = None) -> Artifact | None:
        return await self._required().load(self._key, name, version=version)

    @awaited("context.artifacts.list")
    async def list(self) -> tuple[ArtifactInfo, ...]:
        return await self._required().list(self._key)

    def _required(self) -> ArtifactStore:
        if self._store is None:
            raise ConfigError("The app has no artifact store.", fix="Give the runner one, or set `artifacts` in turnwise.yaml.")
        return self._store


SEARCH_SECONDS = 5.0
"""How long a turn waits for its memory before it goes on without."""

log = logging.getLogger("turnwise.runner")


class MemoryView:
    """The memory as one agent run may use it. New entries are stored with the agent's next event."""

    if not TYPE_CHECKING:
        __getattr__ = no_attribute("context.memory")

    def __init__(
        self,
        invocation: InvocationState,
        card: AgentCard,
        branch: Branch,
        emitter: EventEmitter,
        steps: Steps,
        writes: PendingWrites,
        roles: Collection[str],
        unawaited: Unawaited,
    ) -> None:
        self.unawaited = unawaited
        self._invocation, self._card, self._branch = invocation, card, branch
        self._emitter, self._steps, self._writes = emitter, steps, writes
        self._reader = MemoryReader(invocation.key, frozenset(roles))
        self._count = 0

    @property
    def _store(self) -> MemoryStore:
        return self._invocation.runtime.memory.store

    @awaited("context.memory.remember")
    async def remember(
        self,
        text: str,
        *,
        kind: MemoryKind = "fact",
        span: Span = "long",
        this_session: bool = False,
        said_by: Speaker = "agent",
        entity: Entity | None = None,
        supersedes: Sequence[str] = (),
        id: str | None = None,
    ) -> MemoryEntry:
        """Adds an entry to the user's memory; it is stored with the run's next event. A full memory stores nothing."""
        now = self._invocation.runtime.issuer.now()
        seconds = self._invocation.runtime.memory.config.seconds(span) if span in ("working", "short") else None
        entry = new_entry(
            id="-" if id is None else id,
            kind=kind,
            text=text,
            session=self._invocation.key.id if this_session else None,
            span=span,
            expires_at=now + timedelta(seconds=seconds) if seconds is not None else None,
            said_by=said_by,
            agent=self._card.name,
            roles=self._card.roles,
            entity=entity,
            supersedes=tuple(supersedes),
            created_at=now,
        )
        if id is None:
            entry = entry.replace(id=self._id_of(entry))
        entry = await self._invocation.guardrails.remembered(entry, self._card.name)
        if entry.id not in self._invocation.remembered and await self._has_room():
            self._invocation.remembered.add(entry.id)
            self._writes.remember(entry)
        return entry

    @awaited("context.memory.recall")
    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        kinds: Collection[MemoryKind] | None = None,
        spans: Collection[Span] | None = None,
        said_by: Collection[Speaker] | None = None,
        key: str | None = None,
    ) -> list[Recalled]:
        """Returns the entries nearest to the query that the agent may read, after guardrails. Recorded as a step."""
        wanted = MemoryFilter(kinds=kinds, spans=spans, said_by=said_by)

        async def search() -> Sequence[Recalled]:
            service, at = self._invocation.runtime.memory, self._invocation.key
            vector = await service.vector(query)
            found = await self._store.search(
                at.app, at.user, query, vector=vector, reader=self._reader, filter=wanted, limit=max(1, limit)
            )
            checked = [await self._invocation.guardrails.memory(each.entry, self._card.name) for each in found]
            return [each.replace(entry=entry) for each, entry in zip(found, checked, strict=True) if entry is not None]

        return await self._read("recall", key, search)

    @awaited("context.memory.entities")
    async def entities(
        self, type: str | None = None, *, normal: str | None = None, limit: int = 20, key: str | None = None
    ) -> list[MemoryEntry]:
        """Returns the things that the user mentioned, by type or normal form, newest first. Recorded as a step."""
        types, normals = None if type is None else [type], None if normal is None else [normal]

        async def search() -> Sequence[Recalled]:
            at = self._invocation.key
            found = await self._store.entities(
                at.app, at.user, types=types, normals=normals, reader=self._reader, limit=max(1, limit)
            )
            return [Recalled(entry=entry, score=0.0) for entry in found]

        return [each.entry for each in await self._read("entities", key, search)]

    @awaited("context.memory.forget")
    async def forget(self, *ids: str, key: str | None = None) -> int:
        """Deletes those of the entries that the agent may read, and returns their number. Recorded as a step."""

        async def work() -> int:
            await self._flush()
            at = self._invocation.key
            seen = [id_ for id_ in ids if await self._store.get(at.app, at.user, id_, reader=self._reader) is not None]
            return await self._store.forget(at.app, at.user, ids=seen) if seen else 0

        count: int = await self._steps.step(self._key("forget", key), work)
        return count

    async def _read(self, what: str, key: str | None, search: Callable[[], Awaitable[Sequence[Recalled]]]) -> list[Recalled]:
        """Searches once and records what was found. With the store away it finds nothing, which is recorded (G8)."""

        async def work() -> dict[str, Any]:
            await self._flush()
            try:
                async with asyncio.timeout(SEARCH_SECONDS):
                    found = await search()
            except (StoreError, TimeoutError) as problem:
                code = problem.code if isinstance(problem, StoreError) else "store.timeout"
                log.warning("The memory could not be read: %s", code)
                return {"found": [], "failed": code}
            note_recalled(each.entry.id for each in found)
            return {"found": [each.model_dump(mode="json", exclude_defaults=True) for each in found]}

        value = await self._steps.step(self._key(what, key), work)
        read = [Recalled.model_validate(each, strict=False) for each in value["found"]]
        found = [each for each in read if each.entry.text != FORGOTTEN]
        self._invocation.recalled.update((each.entry.id, each.entry.text) for each in found if each.entry.text)
        return found

    async def _has_room(self) -> bool:
        """Returns whether the memory has room for one more entry, pending ones included."""
        invocation = self._invocation
        allowances, limits = invocation.runtime.allowances, invocation.config.limits
        # What is not stored yet, no reading of the usage finds.
        entries = 1 + len(self._writes.remembered)
        has_room = await allowances.has_memory_room(invocation.key, limits, entries=entries)
        if not has_room:
            log.warning("The memory of a user is full: an entry was not stored.")
        return has_room

    async def _flush(self) -> None:
        """Stores what was remembered before, so that it is found."""
        if self._writes.remembered:
            self._emitter.buffer_writes()
        await self._invocation.flush()

    def _key(self, what: str, key: str | None) -> str:
        if key is not None:
            return f"memory.{what}/{key}"
        self._count += 1
        return f"memory.{what}#{self._count}"

    def _id_of(self, entry: MemoryEntry) -> str:
        """Returns the id of an entry: equal in each attempt, so that a repeated one writes once."""
        entity = (entry.entity.type, entry.entity.normal) if entry.entity else None
        scope = current_scope(self._branch)
        place = (self._invocation.invocation_id, scope.branch, scope.step, entry.kind, entry.span, entry.session, entity)
        return f"m{blake2b(repr((*place, entry.text)).encode(), digest_size=12).hexdigest()}"
