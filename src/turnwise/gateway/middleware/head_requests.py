"""Answers HEAD on every path that has GET, with the same status and headers and without a body."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnwise.gateway.problems import accepts_method

STREAM = b"text/event-stream"


class HeadRequests:
    """Runs GET for a HEAD request, without the body, on paths without their own HEAD route. A stream ends after its headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] != "http"
            or scope["method"] != "HEAD"
            or accepts_method(scope, "HEAD")
            or not accepts_method(scope, "GET")
        ):
            await self._app(scope, receive, send)
            return
        answer, asked = _HeadResponse(send), {**scope, "method": "GET"}
        answer.task = asyncio.create_task(self._run(asked, receive, answer.send))
        try:
            await answer.task
        except asyncio.CancelledError:
            if not answer.is_over:
                raise
        if "route" in asked:
            scope["route"] = asked["route"]  # the access log reads it

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class _HeadResponse:
    """Forwards the response's start and drops its body. `is_over` is set when the response is complete."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.task: asyncio.Task[None] | None = None
        self.is_over = False

    async def send(self, message: Message) -> None:
        if message["type"] != "http.response.start":
            if not message.get("more_body", False):
                await self._end()
            return
        await self._send(message)
        if _is_stream(message):
            await self._end()
            assert self.task is not None
            self.task.cancel()

    async def _end(self) -> None:
        if not self.is_over:
            self.is_over = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _is_stream(message: Message) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(STREAM) for name, value in message.get("headers", ()))
