"""Places of open requests, and the bytes of responses."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import Message, Receive, Scope, Send

from turnwise.facts.callers import Caller
from turnwise.gateway.middleware.requests import OpenRequests

ANN = Caller(id="key:1", user="ann")


async def receive() -> Message:
    return {"type": "http.request"}


async def ignore(message: Message) -> None:
    pass


async def test_a_place_is_freed_and_bytes_of_a_known_caller_are_counted() -> None:
    counted: list[tuple[str, int]] = []
    places: list[str] = []

    @asynccontextmanager
    async def place() -> AsyncIterator[None]:
        places.append("taken")
        yield
        places.append("freed")

    async def count(caller: Caller, size: int) -> None:
        counted.append((caller.id, size))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.body", "body": b"unknown", "more_body": True})
        await scope["state"]["places"].enter_async_context(place())
        scope["state"]["caller"] = ANN
        await send({"type": "http.response.body", "body": b"four", "more_body": True})
        await send({"type": "websocket.send", "text": "grüße"})
        assert places == ["taken"]

    await OpenRequests(app, count)({"type": "http"}, receive, ignore)
    assert places == ["taken", "freed"]
    assert counted == [("key:1", 4), ("key:1", 7)]
