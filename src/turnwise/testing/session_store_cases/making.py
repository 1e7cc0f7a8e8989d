"""Helpers of the cases: build sessions, events and messages, and run calls."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar

from turnwise.facts.content import text_content
from turnwise.facts.events import USER, Actions, End, Event, Rewind
from turnwise.facts.messages import Message
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Session, SessionKey, fold
from turnwise.ports.stores import Lease, SessionStore

Case = Callable[[SessionStore], Coroutine[Any, Any, None]]
SharedCase = Callable[[Callable[[], SessionStore]], Coroutine[Any, Any, None]]

LEASE = Lease("holder-1", 60.0)
OTHER_LEASE = Lease("holder-2", 60.0)
DYING = Lease("holder-3", 60.0)
"""The lease of a holder that leaves, which is as if it died."""
NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
"""The time of all events: order never depends on it (behaviour A33)."""

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


def fresh_key() -> SessionKey:
    """A session of a new app, so that cases may share a store."""
    return SessionKey(f"app-{uuid.uuid4().hex[:12]}", "user-1", "session-1")


def fresh_id(kind: str = "event") -> str:
    return f"{kind}-{uuid.uuid4().hex}"


def said(author: str, text: str = "", *, invocation: str = "i-1", **actions: Any) -> Event:
    """An event of that author with a new id; the keyword arguments are fields of `Actions`."""
    return Event(
        id=fresh_id(),
        author=author,
        invocation_id=invocation,
        created_at=NOW,
        content=text_content(text, "user" if author == USER else "agent") if text else None,
        actions=Actions(**actions),
    )


def asked(text: str = "hello", *, invocation: str = "i-1", agent: str = "help", **actions: Any) -> Event:
    """A user's event with the selection of `agent`."""
    selection = Selection(agent=agent, method="resume", confidence=0.5, reason="It spoke last.", fingerprint="f-1")
    return said(USER, text, invocation=invocation, selection=selection, **actions)


def ended(author: str = "help", text: str = "", *, invocation: str = "i-1", **actions: Any) -> Event:
    """The last event of an invocation."""
    return said(author, text, invocation=invocation, end=End(), **actions)


def writes(state: dict[str, Any], *, invocation: str = "i-1") -> Event:
    return said("help", "done", invocation=invocation, state_delta=state)


def rewinds(from_sequence: int, invocation: str = "i-1") -> Event:
    return said(USER, invocation=f"rewind-{invocation}", rewind=Rewind(from_sequence=from_sequence, invocation_id=invocation))


def message(text: str = "hello", id_: str | None = None) -> Message:
    return Message(id=id_ or fresh_id("message"), content=text_content(text, "user"))


async def told(store: SessionStore, key: SessionKey, *invocations: str, text: str = "hello") -> Session:
    """Writes a session with these invocations, each with a message and an answer."""
    session = await store.open(key) or await store.create(key)
    for invocation in invocations:
        session = await store.append(session, [asked(text, invocation=invocation), ended("help", "hi", invocation=invocation)])
    return session


async def opened(store: SessionStore, key: SessionKey) -> Session:
    session = await store.open(key)
    assert session is not None, f"{key} is missing"
    return session


async def texts(store: SessionStore, key: SessionKey, **window: Any) -> list[str]:
    return [event.text for event in await store.events(key, **window)]


async def refused(call: Awaitable[object], error: type[E]) -> E:
    """Returns the error that the call raised. Raises AssertionError if it raised none of that class."""
    try:
        await call
    except error as raised:
        return raised
    raise AssertionError(f"{error.__name__} was expected, and nothing was raised")


async def at_once(calls: Iterable[Awaitable[T]]) -> list[T | BaseException]:
    """Runs the calls concurrently. Returns their results and exceptions."""
    return await asyncio.gather(*calls, return_exceptions=True)


def won(results: Iterable[T | BaseException]) -> list[T]:
    return [result for result in results if not isinstance(result, BaseException)]


def lost(results: Iterable[object]) -> list[BaseException]:
    return [result for result in results if isinstance(result, BaseException)]


async def check_fold(store: SessionStore, key: SessionKey, initial: dict[str, Any] | None = None) -> Session:
    """Asserts that the stored session equals the fold of its visible events, and returns it."""
    session = await opened(store, key)
    empty = Session(app=key.app, user=key.user, id=key.id, created_at=NOW, updated_at=NOW, state=initial or {})
    folded = fold(empty, await store.events(key))
    assert (session.head, session.state) == (folded.head, folded.state)
    return session
