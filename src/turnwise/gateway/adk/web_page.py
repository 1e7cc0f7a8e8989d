"""The ADK's development page: its static files, from a folder of the operator's, and what it is told when it starts.

The page is written to load fonts from elsewhere. Here it loads nothing from anywhere but this gateway: where its first file
names other places, that is taken out, and browsers are told to refuse the rest.
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
"""Colours for code: the page wants them, and they are not among its files."""
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
"""What a browser lets the page do. Its styles are made while it runs; it draws graphs in WebAssembly."""
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
"""Whatever this machine takes these for: a browser runs no script of another type."""
_EXTERNAL = (
    re.compile(r"@font-face\s*\{[^}]*url\(\s*['\"]?https?:[^}]*\}"),
    re.compile(r"<link[^>]*href=\"https?:[^>]*>"),
)
_ICON_STYLE = (
    "<style>mat-icon:not(#_),.material-symbols-outlined:not(#_){font:8px/1 sans-serif !important;"
    "white-space:normal !important;word-break:break-all;overflow:hidden;max-height:2.5rem}</style></head>"
)
"""Icons are words in fonts from elsewhere: small enough, the words can be read instead."""
_DEFERRED_STYLE = re.compile(r" media=\"print\" onload=\"this\.media='all'\"")
"""Styles that a script in the page would switch on; without it they are there from the beginning."""


def page(folder: Path, prefix: str) -> APIRouter:
    """The routes of the page with these files. prefix: below which path the protocol is."""
    router, files = APIRouter(include_in_schema=False), StaticFiles(directory=folder, check_dir=False)

    async def get_start(request: Request) -> Response:
        """To the page, with the slash at its end that its relative paths need."""
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f".{PAGE_PATH}/{query}", headers=_headers())

    async def get_configuration(front: TheFront) -> Response:
        """Where the page finds what it talks to."""
        before = urlsplit(front.config.public_url or "").path
        told = {"backendUrl": before + prefix, "telemetry": False}
        return JSONResponse(told, headers=_headers())

    async def get_file(request: Request, path: str = "") -> Response:
        """One of its files; the first for what has no name, and for no other file."""
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

    for at in ("/", PAGE_PATH):
        router.add_api_route(at, get_start, methods=READ_METHODS)
    router.add_api_route(f"{PAGE_PATH}/assets/config/runtime-config.json", get_configuration, methods=READ_METHODS)
    router.add_api_route(PAGE_PATH + "/{path:path}", get_file, methods=READ_METHODS)
    return router


def self_contained(text: str) -> str:
    """The page's first file, so that it needs nothing from elsewhere, and no script in it."""
    for pattern in _EXTERNAL:
        text = pattern.sub("", text)
    return _DEFERRED_STYLE.sub("", text).replace("</head>", _ICON_STYLE, 1)


def _headers(*, cached: bool = False) -> dict[str, str]:
    return {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache" if cached else "no-store"}
