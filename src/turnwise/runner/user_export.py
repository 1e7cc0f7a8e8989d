"""Exports all data of a user as one ZIP archive, piece by piece."""

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import IO, Any, NamedTuple, Protocol

from turnwise.facts.events import Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Session, SessionKey
from turnwise.ports.decisions import Decision
from turnwise.ports.records import RecordStore
from turnwise.ports.stores import PAGE_BYTES, ArtifactStore, SessionStore

FORMAT = "turnwise-user-export"
VERSION = 1
EVENTS = 50
"""The number of events that are read at once."""
ROWS = 100
"""The number of sessions, decisions or labels that are read at once."""
SLICE_BYTES = 1024 * 1024
"""An artifact is compressed in slices of this size."""
SHARED = "user:"


class Member(NamedTuple):
    """A file of the archive."""

    name: str
    pieces: AsyncGenerator[bytes, None]


class ExportView(Protocol):
    """Reduces what is exported to what the reader may see."""

    @property
    def inside(self) -> bool:
        """True if the reader sees everything, labels included."""
        ...

    def event(self, event: Event) -> Event: ...

    def selection(self, selection: Selection) -> Selection: ...

    def reaches(self, agent: str) -> bool: ...


class WholeView:
    """Shows everything."""

    inside = True

    def event(self, event: Event) -> Event:
        return event

    def selection(self, selection: Selection) -> Selection:
        return selection

    def reaches(self, _agent: str) -> bool:
        return True


class UserExport:
    """The archive of a user's data. It is made while it is read, and holds a page of rows or one artifact in memory.

    Args:
        store: The session store.
        artifacts: The artifact store.
        app: The app.
        user: The user.
        view: The reader's view.
    """

    def __init__(
        self, store: SessionStore, artifacts: ArtifactStore | None, app: str, user: str, view: ExportView | None = None
    ) -> None:
        self._store, self._artifacts = store, artifacts
        self._app, self._user, self._view = app, user, view or WholeView()

    async def chunks(self, now: datetime) -> AsyncGenerator[bytes, None]:
        """Yields the archive in pieces. Raises the errors of the stores.

        The rows come from successive reads. A session that is deleted meanwhile is left out or ends early.
        """
        output = _Output()
        archive = zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
        async with aclosing(self._members(now)) as members:
            async for member in members:
                with archive.open(member.name, "w", force_zip64=True) as file:
                    async with aclosing(member.pieces) as pieces:
                        async for piece in pieces:
                            await asyncio.to_thread(_write, file, piece)
                            if ready := output.taken():
                                yield ready
        archive.close()
        yield output.taken()

    async def _members(self, now: datetime) -> AsyncGenerator[Member, None]:
        """Yields the archive's files: facts on the export, the user's state, memories and artifacts, sessions, labels."""
        nowhere = SessionKey(self._app, self._user, "-")
        blank = await self._store.open(nowhere, blank=True)
        about = {"format": FORMAT, "version": VERSION, "app": self._app, "user": self._user, "exported_at": now.isoformat()}
        yield Member("export.json", _whole(about))
        yield Member("user_state.json", _whole(blank.user_state if blank is not None else {}))
        yield Member("memories.jsonl", self._memories())
        async for member in self._artifact_members(nowhere, "artifacts", shared=True):
            yield member
        number, after = 0, None
        while True:
            page = await self._store.list(self._app, user=self._user, after=after, limit=ROWS)
            for info in page.items:
                session = await self._store.open(info.key)
                if session is not None:
                    number += 1
                    async for member in self._session_members(session, f"sessions/{number:06}"):
                        yield member
            after = page.next
            if after is None:
                break
        if self._view.inside and isinstance(self._store, RecordStore):
            yield Member("labels.jsonl", self._labels(self._store))

    async def _session_members(self, session: Session, folder: str) -> AsyncGenerator[Member, None]:
        """Yields a session's files: `session.json`, its events, its decisions, its artifacts."""
        about = {
            "id": session.id,
            "created_at": session.created_at.isoformat(),
            "updated_at": session.updated_at.isoformat(),
            "state": session.state,
        }
        yield Member(f"{folder}/session.json", _whole(about))
        yield Member(f"{folder}/events.jsonl", self._events(session.key))
        yield Member(f"{folder}/decisions.jsonl", self._decisions(session.key))
        async for member in self._artifact_members(session.key, f"{folder}/artifacts", shared=False):
            yield member

    async def _artifact_members(self, key: SessionKey, folder: str, *, shared: bool) -> AsyncGenerator[Member, None]:
        """Yields all versions of artifacts, each as a file, and a list of them. The files' names are numbers.

        Args:
            shared: Whether to yield the user's artifacts instead of the session's own.
        """
        if self._artifacts is None:
            return
        latest = [info for info in await self._artifacts.list(key) if info.name.startswith(SHARED) is shared]
        listed: list[dict[str, Any]] = []
        for place, each in enumerate(latest, 1):
            for info in await self._artifacts.versions(key, each.name):
                artifact = await self._artifacts.load(key, info.name, version=info.version)
                if artifact is not None:
                    file = f"{folder}/{place:06}-{info.version}"
                    listed.append({**info._asdict(), "file": file})
                    yield Member(file, _slices(artifact.data))
        if listed:
            yield Member(f"{folder}.jsonl", _whole(*listed))

    async def _events(self, key: SessionKey) -> AsyncGenerator[bytes, None]:
        after = 0
        while events := await self._store.events(key, after=after, limit=EVENTS, hidden=True, max_bytes=PAGE_BYTES):
            yield b"".join(_json(self._view.event(event).model_dump(mode="json", exclude_defaults=True)) for event in events)
            after = events[-1].sequence or 0

    async def _decisions(self, key: SessionKey) -> AsyncGenerator[bytes, None]:
        """Yields a session's decisions as JSON lines, a page at a time."""
        after: str | None = None
        while True:
            page = await self._store.decisions.search(self._app, user=self._user, key=key, after=after, limit=ROWS)
            yield b"".join(_json(self._decision(decision)) for decision in page.items)
            after = page.next
            if after is None:
                return

    def _decision(self, decision: Decision) -> dict[str, Any]:
        """Returns a decision as JSON data, reduced to what the reader may see."""
        label = decision.label
        return {
            "sequence": decision.sequence,
            "invocation_id": decision.invocation_id,
            "text": decision.text,
            "created_at": decision.created_at.isoformat(),
            "label": label if label is not None and self._view.reaches(label) else None,
            "selection": self._view.selection(decision.selection).model_dump(mode="json", exclude_defaults=True),
        }

    async def _memories(self) -> AsyncGenerator[bytes, None]:
        """Yields the user's memory entries that the reader may see as JSON lines, replaced ones included."""
        after: str | None = None
        while True:
            page = await self._store.memory.recent(self._app, self._user, superseded=True, after=after, limit=ROWS)
            shown = [each for each in page.items if not each.agent or self._view.reaches(each.agent)]
            yield b"".join(_json(entry.model_dump(mode="json", exclude_defaults=True)) for entry in shown)
            after = page.next
            if after is None:
                return

    async def _labels(self, store: RecordStore) -> AsyncGenerator[bytes, None]:
        """Yields the labels of the user's decisions as JSON lines."""
        after: str | None = None
        while True:
            page = await store.labels.search(self._app, user=self._user, after=after, limit=ROWS)
            yield b"".join(_json(label.model_dump(mode="json")) for label in page.items)
            after = page.next
            if after is None:
                return


async def _whole(*values: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
    yield b"".join(map(_json, values))


async def _slices(data: bytes) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(data), SLICE_BYTES):
        yield data[start : start + SLICE_BYTES]


def _write(file: IO[bytes], piece: bytes) -> None:
    file.write(piece)


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"


class _Output(io.RawIOBase):
    """Collects what the archive writes, until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._written += data
        return len(data)

    def taken(self) -> bytes:
        """Returns what was written since the last call."""
        taken = bytes(self._written)
        self._written.clear()
        return taken
