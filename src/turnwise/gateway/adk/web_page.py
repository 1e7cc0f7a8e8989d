"""Serves the ADK's development page from a folder that the operator supplies.

The page would load fonts from other hosts. Such links are removed from its index file, and a content security policy blocks the
rest.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

import anyio
from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from turnwise.gateway.front import TheFront

INDEX = "index.html"
PAGE_PATH = "/dev-ui"
READ_METHODS = ["GET", "HEAD"]
EMPTY_FILES = frozenset({"prism-dark.css", "prism-light.css"})
"""Style sheets that the page requests but does not ship; they are served empty."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'wasm-unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "media-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' data:",
        "worker-src 'self' blob:",
        "base-uri 'self'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""The content security policy. The page creates styles at run time and draws graphs in WebAssembly."""
MEDIA_TYPES: Mapping[str, str] = MappingProxyType(
    {
        ".css": "text/css; charset=utf-8",
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".json": "application/json",
        ".svg": "image/svg+xml",
        ".wasm": "application/wasm",
        ".woff2": "font/woff2",
    }
)
"""Media types by suffix, independent of the operating system's table: browsers run scripts of the right type only."""
_EXTERNAL = (
    re.compile(r"@font-face\s*\{[^}]*url\(\s*['\"]?https?:[^}]*\}"),
    re.compile(r"<link[^>]*href=\"https?:[^>]*>"),
)
_ICON_STYLE = (
    "<style>mat-icon:not(#_),.material-symbols-outlined:not(#_){font:8px/1 sans-serif !important;"
    "white-space:normal !important;word-break:break-all;overflow:hidden;max-height:2.5rem}</style></head>"
)
"""The icon fonts are external. In their absence icons appear as small text."""
_DEFERRED_STYLE = re.compile(r" media=\"print\" onload=\"this\.media='all'\"")
"""Styles that an inline script would enable; without the attribute they apply at once."""


def page(folder: Path, prefix: str) -> APIRouter:
    """Builds the routes of the page.

    Args:
        folder: The page's files.
        prefix: The path prefix of the ADK protocol.
    """
    router, files = APIRouter(include_in_schema=False), StaticFiles(directory=folder, check_dir=False)

    async def get_start(request: Request) -> Response:
        """Redirects to the page; its relative paths require the trailing slash."""
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f".{PAGE_PATH}/{query}", headers=_headers())

    async def get_configuration(front: TheFront) -> Response:
        """Tells the page the URL of its backend."""
        root_path = urlsplit(front.config.public_url or "").path
        configuration = {"backendUrl": root_path + prefix, "telemetry": False}
        return JSONResponse(configuration, headers=_headers())

    async def get_file(request: Request, path: str = "") -> Response:
        """Serves one file; the index for the root only."""
        if path in ("", INDEX):
            text = await anyio.Path(folder / INDEX).read_text(encoding="utf-8")
            return HTMLResponse(self_contained(text), headers=_headers())
        try:
            answer = await files.get_response(path, request.scope)
        except (OSError, HTTPException) as error:  # the first for a name that no file can have
            if path not in EMPTY_FILES:
                raise HTTPException(getattr(error, "status_code", 404)) from None
            answer = Response("")
        answer.headers.update(_headers(cached=True))
        if (type_ := MEDIA_TYPES.get(Path(path).suffix)) is not None:
            answer.headers["Content-Type"] = type_
        return answer

    for path in ("/", PAGE_PATH):
        router.add_api_route(path, get_start, methods=READ_METHODS)
    router.add_api_route(f"{PAGE_PATH}/assets/config/runtime-config.json", get_configuration, methods=READ_METHODS)
    router.add_api_route(PAGE_PATH + "/{path:path}", get_file, methods=READ_METHODS)
    return router


def self_contained(text: str) -> str:
    """Removes external links and inline scripts from the index file."""
    for pattern in _EXTERNAL:
        text = pattern.sub("", text)
    return _DEFERRED_STYLE.sub("", text).replace("</head>", _ICON_STYLE, 1)


def _headers(*, cached: bool = False) -> dict[str, str]:
    return {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache" if cached else "no-store"}
