"""An agent's view of the user's memory."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from turnwise.facts.branch import Branch
from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import StoreError
from turnwise.facts.memory import FORGOTTEN, Entity, MemoryEntry, MemoryKind, Recalled, Span, Speaker, new_entry
from turnwise.ports.memory import MemoryFilter, MemoryReader, MemoryStore
from turnwise.runner.record.journal import current_scope
from turnwise.runner.turn.emitter import EventEmitter
from turnwise.runner.turn.misuse import Unawaited, awaited, no_attribute
from turnwise.runner.turn.pending_writes import PendingWrites, note_recalled
from turnwise.runner.turn.state import InvocationState
from turnwise.runner.turn.steps import Steps

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
