"""Invocations as the things a user has going: how each stands, listed."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from turnwise.facts.callers import Caller
from turnwise.facts.errors import SessionError
from turnwise.facts.events import LIMIT
from turnwise.gateway.door.whose import Whose
from turnwise.ports.stores import InvocationInfo
from turnwise.runner import Runner
from turnwise.runner.record.event_ids import origin_of


class Task(NamedTuple):
    """An invocation by the message that began it. state: `running`, `waiting`, or why it ended. changed_at: since when."""

    session: str
    message_id: str
    invocation_id: str
    state: str
    changed_at: datetime


class TaskPage(NamedTuple):
    """A page of them. next: the cursor of the next; None at the end. total: how many all pages hold."""

    items: tuple[Task, ...]
    next: str | None
    total: int


class Tasks:
    """What callers have going. All of it raises Forbidden, and what the store raises.

    user: whom the request names; None = the caller.
    """

    def __init__(self, runner: Runner, whose: Whose) -> None:
        self._runner, self._whose = runner, whose

    async def page(
        self,
        caller: Caller,
        *,
        user: str | None = None,
        session: str | None = None,
        states: Sequence[str] | None = None,
        since: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> TaskPage:
        """One user's tasks, of one session of his if it is named, the one that changed last first. What waits in an inbox is
        none yet; what was taken back is none any more.

        states: only those; `limit:` = any limit. since: only what changed then or later. What an older version wrote is looked
        up in its log: a page may then hold fewer than `limit` though there are more, `total` may be too high. CursorInvalid.
        """
        decisions, app = self._runner.store.decisions, self._runner.app
        named = self._whose.user(caller, "sessions:read", user)
        key = None if session is None else self._whose.session(caller, "sessions:read", session, user)
        found = await decisions.invocations(app, user=named, key=key, states=states, since=since, after=after, limit=limit)
        total = await decisions.count_invocations(app, user=named, key=key, states=states, since=since)
        known = await asyncio.gather(*map(self._state, found.items))
        told = (
            _task(info, state) for info, state in zip(found.items, known, strict=True) if state and _is_among(state, states)
        )
        return TaskPage(tuple(told), found.next, total)

    async def _state(self, info: InvocationInfo) -> str | None:
        """How it stands, looked up if it is not known; None when it was taken back or deleted meanwhile."""
        if info.state is not None:
            return info.state
        try:
            reading = await self._runner.sessions.reading(info.key, invocation_id=info.invocation_id)
        except SessionError:
            return None
        if reading.state != "ended":
            return reading.state
        return reading.result.end.reason if reading.result and reading.result.end else None


def _is_among(state: str, states: Sequence[str] | None) -> bool:
    return states is None or state in states or (LIMIT in states and state.startswith(LIMIT))


def _task(info: InvocationInfo, state: str) -> Task:
    return Task(info.key.id, origin_of(info.event_id).message, info.invocation_id, state, info.changed_at)
