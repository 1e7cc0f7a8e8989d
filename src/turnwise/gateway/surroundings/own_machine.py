"""Where everybody is let in, nobody may be who is led here by a web page: neither from another origin, nor by a name that was
made to mean this machine (DNS rebinding)."""

import re
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from turnwise.facts.errors import Forbidden

_HERE = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)


class OwnMachine:
    """Refuses requests to another name than this machine's, and those of pages of other origins than its own or `origins`.

    Raises Forbidden.
    """

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self._app, self._origins = app, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"}:
            headers = Headers(scope=scope)
            hosts = headers.getlist("host")
            if len(hosts) != 1 or not _HERE.fullmatch(hosts[0]):
                raise Forbidden(
                    "Without gateway.auth, this gateway is reached as localhost, 127.0.0.1 or [::1] only.",
                    fix="Use one of these names, or set gateway.auth.",
                )
            origin = headers.get("origin")
            if origin is not None and origin not in self._origins and not _is_own(origin, hosts[0]):
                raise Forbidden(
                    "Without gateway.auth, web pages of other origins may not call this gateway.",
                    fix="Name the page's origin in gateway.origins, or set gateway.auth.",
                )
        await self._app(scope, receive, send)


def _is_own(origin: str, host: str) -> bool:
    return origin.lower() in {f"http://{host}".lower(), f"https://{host}".lower()}
