"""Paths and queries are text in UTF-8 without NUL. What is not would otherwise be taken for something else, quietly."""

from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send

from turnwise.facts.errors import RequestError


class PlainText:
    """Refuses requests whose path or query is no such text. Raises RequestError."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"}:
            for what, given in (("path", scope.get("raw_path") or b""), ("query", scope.get("query_string") or b"")):
                if not _is_text(given):
                    raise RequestError(f"The {what} is no text in UTF-8, or holds NUL.", fix="Send it percent-encoded UTF-8.")
        await self._app(scope, receive, send)


def _is_text(given: bytes) -> bool:
    if b"%" not in given:
        return given.isascii() and b"\0" not in given
    plain = unquote_to_bytes(given)
    try:
        plain.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in plain
