"""What the store holds at the end, read in this process."""

import asyncio
import json
from typing import Any, NamedTuple

from pydantic import JsonValue
from sqlalchemy import Executable, and_, create_engine, select
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool

from survival_play.worker import APP
from turnwise import Event, SqlSessionStore
from turnwise.facts.events import USER
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql.tables import messages, sessions

PAGE = 200


class Log(NamedTuple):
    """A session: all its stored events, those that no rewind hides, and the ids of its messages as they were accepted."""

    key: SessionKey
    stored: list[Event]
    visible: list[Event]
    accepted: list[str]
    state: dict[str, JsonValue]
    last_sequence: int


def by_user(event: Event) -> bool:
    return event.author == USER and event.content is not None


async def read_logs(url: str) -> list[Log]:
    """Every session of the store."""
    order = _accepted_in_order(url)
    store = SqlSessionStore(url)
    try:
        keys = []
        page = await store.list(APP, limit=PAGE)
        while True:
            keys += [info.key for info in page.items]
            if page.next is None:
                break
            page = await store.list(APP, after=page.next, limit=PAGE)
        return [await _read_log(store, key, order.get(key.id, [])) for key in keys]
    finally:
        await store.close()


async def _read_log(store: SqlSessionStore, key: SessionKey, accepted: list[str]) -> Log:
    session = await store.open(key)
    assert session is not None
    stored, visible = await store.events(key, hidden=True), await store.events(key)
    return Log(key, stored, visible, accepted, dict(session.state), session.last_sequence)


async def settled(url: str, seconds: float) -> list[str]:
    """Waits until nothing is left to do in any session; gives what is left when that many seconds are over."""
    until = asyncio.get_running_loop().time() + seconds
    while left := _unsettled(url):
        if asyncio.get_running_loop().time() > until:
            return left
        await asyncio.sleep(0.2)
    return []


def _accepted_in_order(url: str) -> dict[str, list[str]]:
    is_here = and_(sessions.c.owner == messages.c.owner, sessions.c.number == messages.c.session)
    asked = select(sessions.c.session_id, messages.c.message_id).join(sessions, is_here)
    found: dict[str, list[str]] = {}
    for session, message in _rows(url, asked.order_by(messages.c.position)):
        found.setdefault(session, []).append(message)
    return found


def _unsettled(url: str) -> list[str]:
    """Sessions with queued messages or running invocations."""
    found = []
    for id_, queued, head in _rows(url, select(sessions.c.session_id, sessions.c.queued, sessions.c.head)):
        open_ = json.loads(head).get("invocations", {})
        running = [name for name, invocation in open_.items() if invocation.get("state", "running") == "running"]
        if queued or running:
            found.append(f"{id_}: {queued} queued, running: {running}")
    return found


def _rows(url: str, query: Executable) -> list[Any]:
    # The store has no way to ask for this, and needs none.
    parsed = make_url(url)
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    engine = create_engine(parsed, poolclass=NullPool)
    with engine.connect() as connection:
        return list(connection.execute(query))
