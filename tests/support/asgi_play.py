"""One request to an ASGI application, without a server."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

Header = tuple[str, str]


class Answered(NamedTuple):
    """status 0: none was sent. sent: all messages, for what is no HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes
    sent: list[Message]


def request(path: str = "/", *headers: Header, kind: str = "http", method: str = "POST", query: bytes = b"") -> Scope:
    """What a server hands over. `path` as it came; headers by names in any case."""
    return {
        "type": kind,
        "method": method,
        "path": path.partition("%")[0],
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 1),
        "state": {},
    }


async def asked(app: ASGIApp, scope: Scope, body: Sequence[bytes] = ()) -> Answered:
    """What the application answers; the pieces of the body come one by one."""
    pieces = [*body] or [b""]
    sent: list[Message] = []

    async def receive() -> Message:
        if not pieces:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return _read(sent)


def answering(status: int = 200, *headers: Header, body: bytes = b"ok") -> ASGIApp:
    """An application that always answers this."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        encoded = [(name.lower().encode(), value.encode()) for name, value in headers]
        await send({"type": "http.response.start", "status": status, "headers": encoded})
        await send({"type": "http.response.body", "body": body})

    return app


def doing(work: Callable[[Scope, Receive], Awaitable[Any]]) -> ASGIApp:
    """An application that does that, and then says that all is well."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await work(scope, receive)
        await answering()(scope, receive, send)

    return app


def _read(sent: list[Message]) -> Answered:
    start: Message = next((each for each in sent if each["type"] == "http.response.start"), {"status": 0, "headers": []})
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    body = b"".join(each.get("body", b"") for each in sent if each["type"] == "http.response.body")
    return Answered(start["status"], headers, body, sent)
