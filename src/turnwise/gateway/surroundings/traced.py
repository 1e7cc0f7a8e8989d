"""What a request sets off belongs to the trace that its headers name (W3C trace context)."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send


class Traced:
    """Joins the trace of whoever asks, if he names one. Needs the extra `otel`."""

    def __init__(self, app: ASGIApp) -> None:
        from turnwise.telemetry.spans import joined

        self._app, self._joined = app, joined

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        with self._joined(Headers(scope=scope)):
            await self._app(scope, receive, send)
