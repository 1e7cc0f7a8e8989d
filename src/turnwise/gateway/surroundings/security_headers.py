"""What browsers are to do with answers: not guess, not frame, not keep, not load anything."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

NOTHING = "default-src 'none'; frame-ancestors 'none'"
SWAGGER = (
    "default-src 'none'; script-src 'unsafe-inline' https://cdn.jsdelivr.net; style-src https://cdn.jsdelivr.net; "
    "img-src data: https://fastapi.tiangolo.com; connect-src 'self'; frame-ancestors 'none'"
)
"""What the page of the documentation needs."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "content-security-policy": NOTHING,
}
_USUAL = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
_DOCUMENTATION = [*_USUAL[:-1], (_USUAL[-1][0], SWAGGER.encode())]


class SecurityHeaders:
    """Adds those headers that an answer does not have. documentation: the path of that page."""

    def __init__(self, app: ASGIApp, documentation: str) -> None:
        self._app, self._documentation = app, documentation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        wanted = _DOCUMENTATION if scope["path"] == self._documentation else _USUAL

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name.lower() for name, _ in given}
                message["headers"] = given + [header for header in wanted if header[0] not in names]
            await send(message)

        await self._app(scope, receive, send_with_headers)
