"""Compresses JSON responses for clients that accept gzip."""

import gzip

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEAST_BYTES = 4_096
"""Smaller responses are sent as they are: they fit into few packets."""
LEVEL = 4


class CompressedJson:
    """Compresses JSON bodies that come in one piece. Streams, files and bodies with an encoding stay as they are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or "gzip" not in Headers(scope=scope).get("accept-encoding", ""):
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def send_compressed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_json(message):
                start = message
                return
            if start is not None:
                begun, start = start, None
                if message["type"] == "http.response.body":
                    message = _compressed(begun, message)
                await send(begun)
            await send(message)

        await self._app(scope, receive, send_compressed)


def _is_json(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    return headers.get("content-type", "").startswith("application/json") and "content-encoding" not in headers


def _compressed(start: Message, message: Message) -> Message:
    """Returns the body as it is sent, and sets the headers of `start` accordingly."""
    body = message.get("body", b"")
    if message.get("more_body", False) or len(body) < LEAST_BYTES:
        return message
    headers = MutableHeaders(raw=start["headers"])
    headers.add_vary_header("Accept-Encoding")
    packed = gzip.compress(body, LEVEL)
    headers["Content-Encoding"] = "gzip"
    headers["Content-Length"] = str(len(packed))
    if etag := headers.get("etag"):
        headers["ETag"] = etag if etag.startswith("W/") else f"W/{etag}"
    return {**message, "body": packed}
