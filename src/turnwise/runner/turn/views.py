"""An agent's views of its session: history, state and artifacts."""

import copy
import json
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from turnwise.facts.branch import Branch
from turnwise.facts.content import BlobPart, TextPart
from turnwise.facts.errors import AgentFailed, ArtifactName, ArtifactTooLarge, ConfigError, LimitReached
from turnwise.facts.events import Event, in_scope
from turnwise.facts.limits import Limits
from turnwise.facts.sessions import SessionKey
from turnwise.facts.sizes import DEEPEST, is_deep, least_bytes
from turnwise.ports.stores import Artifact, ArtifactInfo, ArtifactStore, SessionStore
from turnwise.runner.record.journal import public_event
from turnwise.runner.turn.misuse import Unawaited, awaited, named, no_attribute
from turnwise.runner.turn.pending_writes import PendingWrites
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
            shown = [public_event(event) if event.actions.steps else event for event in events if self._visible(event)]
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


def as_json(what: str, value: object) -> JsonValue:
    """Returns a JSON copy of the value, so that later changes of the original do not reach the log. Raises AgentFailed."""
    if is_deep(value):
        raise AgentFailed(f"{what} is nested more than {DEEPEST} levels deep, and could not be read again.")
    try:
        copied: JsonValue = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise AgentFailed(f"{what} cannot be stored: {error}.", fix="Only JSON values can.") from None
    return copied


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
