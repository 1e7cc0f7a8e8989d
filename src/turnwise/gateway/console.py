"""Serves the console: its page at `/console/`, and its assets under a path with their version."""

from collections.abc import Sequence

from fastapi import APIRouter, FastAPI, Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from turnwise.console import ASSETS, policy, shell
from turnwise.gateway.middleware.responses import SecurityHeaders

CONSOLE = "/console"
FIXED: Sequence[str] = ("/", CONSOLE, f"{CONSOLE}/")
READ_METHODS = ["GET", "HEAD"]
_FOREVER = "public, max-age=31536000, immutable"


def console_router(prefix: str = CONSOLE, gateway: str | None = None) -> APIRouter:
    """Returns the routes of the console.

    Args:
        prefix: The path prefix of the console.
        gateway: The URL of a gateway elsewhere; None if this process is the gateway.
    """
    router = APIRouter(include_in_schema=False)
    shell()  # reads and compresses the files now, not during the first request

    async def redirect_to_console(request: Request) -> Response:
        """Leads browsers to the console. Programs get 404, as for any other path without a route."""
        if "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(404)
        return RedirectResponse(f".{prefix}/")

    async def add_slash(request: Request) -> Response:
        """Redirects to the path with a slash, which the page's relative links need."""
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f".{prefix}/{query}")

    async def get_file(request: Request, path: str = "") -> Response:
        """Returns an asset, or the page for every other path: the page itself reads the path."""
        if path.startswith(f"{ASSETS}/"):
            return _asset(path.removeprefix(f"{ASSETS}/"), request.headers)
        page = shell().page(_depth(request), gateway, path)
        headers = {"Content-Security-Policy": policy(gateway_origin(gateway)), "Cache-Control": "no-cache"}
        return HTMLResponse(page, headers=headers)

    router.add_api_route("/", redirect_to_console, methods=READ_METHODS)
    router.add_api_route(prefix, add_slash, methods=READ_METHODS)
    router.add_api_route(prefix + "/{path:path}", get_file, methods=READ_METHODS)
    return router


def console_app(gateway: str) -> FastAPI:
    """Returns an application that serves the console only, for a gateway elsewhere."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.include_router(console_router(gateway=gateway))
    app.add_middleware(SecurityHeaders)
    return app


def gateway_origin(gateway: str | None) -> str:
    """Returns the origin of the gateway's URL; "" for None."""
    return "/".join(gateway.split("/")[:3]) if gateway else ""


def _depth(request: Request) -> int:
    """Returns the number of slashes after the console's root. An encoded slash is part of a name."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return raw.partition(b"?")[0].count(b"/") - CONSOLE.count("/") - 1


def _asset(path: str, headers: Headers) -> Response:
    """Returns a file of the console at `version/name`, compressed if the browser accepts gzip. Raises 404."""
    version, _, name = path.partition("/")
    found = shell().assets.get(name) if version == shell().version else None
    if found is None:
        raise HTTPException(404)
    sent = {"Cache-Control": _FOREVER, "Vary": "Accept-Encoding"}
    if "gzip" not in headers.get("accept-encoding", ""):
        return Response(found.body, media_type=found.media_type, headers=sent)
    return Response(found.compressed, media_type=found.media_type, headers={**sent, "Content-Encoding": "gzip"})
