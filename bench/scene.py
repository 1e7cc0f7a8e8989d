"""The app under measurement: a small help desk whose agents answer at once, and logs of any length."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from turnwise import AgentContext, Runner, SqlSessionStore, agent
from turnwise.facts.events import Event
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.sessions import SessionKey
from turnwise.ports.agent import Agent
from turnwise.ports.stores import SessionStore

APP, USER = "bench", "ann"
MESSAGE, FOLLOW_UP = "Where is my order 12345? It should have been here on Monday.", "And what about the one before?"
HAND_OVER = "Please give my order 12345 to your colleague who knows the invoices."
_TOPICS = ("refund", "password", "opening time", "product", "warranty", "gift card")
_SEED_BATCH = 1_000


@agent(name="billing", description="Invoices and payments.")
async def billing(message: str) -> str:
    return f"billing: {message}"


@agent(name="orders", description="Where orders are.", patterns=[r"\border\b"])
async def orders(message: str, context: AgentContext) -> str | None:
    if message == HAND_OVER:
        await context.transfer("billing")
        return None
    return f"orders: {message}"


def _other(topic: str) -> Agent:
    @agent(name=topic, description=f"All about a {topic}.", patterns=[rf"\b{topic}s?\b"])
    async def answer(message: str) -> str:
        return f"{topic}: {message}"

    return answer


@agent(name="front", description="Everything else.", children=[orders, billing, *(_other(topic) for topic in _TOPICS)])
async def front(message: str) -> str:
    return f"front: {message}"


def runner(path: Path) -> Runner:
    """A runner on a database file, with eight agents below a root."""
    return Runner(front, app=APP, store=SqlSessionStore(f"sqlite:///{path}"))


async def seed(store: SessionStore, key: SessionKey, turn: list[Event], count: int) -> None:
    """Creates a session of `count` events that repeat this turn's events, appended in large batches."""
    session = await store.create(key)
    batch: list[Event] = []
    for event in _copies(turn, count):
        batch.append(event)
        if len(batch) == _SEED_BATCH:
            session, batch = await store.append(session, batch), []
    if batch:
        await store.append(session, batch)


def _copies(turn: list[Event], count: int) -> Iterator[Event]:
    issuer = SystemIssuer()
    invocation = ""
    for number in range(count):
        if number % len(turn) == 0:
            invocation = issuer.new_id("invocation")
        yield turn[number % len(turn)].replace(id=issuer.new_id("event"), invocation_id=invocation, sequence=None)


def used_bytes(path: Path) -> int:
    """The size of a database without its free pages but with its write-ahead log."""
    connection = sqlite3.connect(path)
    try:
        ask = "SELECT page_count, freelist_count, page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        pages, free, size = connection.execute(ask).fetchone()
        return int((pages - free) * size)
    finally:
        connection.close()
