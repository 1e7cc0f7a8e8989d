"""The ADK's development page, from a folder that the operator supplies, and the routes that only this page calls.

These draw the agents, and give empty answers for unsupported features such as traces and evaluations. The page would load fonts
from other hosts. Such links are removed from its index file, and a content security policy blocks the rest.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio
from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from turnwise.facts.errors import NothingHere
from turnwise.gateway.adk.apps import UserServices, check_app, tree_of
from turnwise.gateway.front import TheFront, TheServices
from turnwise.gateway.services.agents import VisibleAgent
from turnwise.gateway.services.sessions import Window

router = APIRouter(include_in_schema=False)
MOST_EVENTS_SEARCHED = 1_000
"""Number of newest events in which an event is searched."""
DEEPEST = 50
"""Maximum depth of the nested agent structure."""
EMPTY_ANSWERS: Mapping[str, Any] = {
    "/debug/trace/session/{session_id}": [],
    "/debug/trace/{event_id}": {},
    "/tests": [],
    "/eval_sets": [],
    "/eval-sets": {"evalSetIds": []},
    "/eval_results": [],
    "/eval-results": {"evalResultIds": []},
    "/metrics-info": {"metricsInfo": []},
}
"""Routes of unsupported features, with their empty answers."""
_APP = "/dev/apps/{app_name}"


class Colors(NamedTuple):
    """Colors of a drawing."""

    background: str
    line: str
    text: str
    highlight: str


LIGHT = Colors("#ffffff", "#80868b", "#202124", "#69CB87")
DARK = Colors("#333537", "#cccccc", "#ffffff", "#0F5223")


def dot_of(children: Mapping[str, Collection[str]], root: str, highlighted: str | None = None, *, dark: bool = False) -> str:
    """Draws the agents below `root` as a Graphviz graph.

    Args:
        children: The child names of each agent.
        highlighted: The agent to highlight.
    """
    colors = DARK if dark else LIGHT
    lines = [
        "digraph agents {",
        f'rankdir=LR; bgcolor="{colors.background}";',
        f'node [shape=box, style="rounded", color="{colors.line}", fontcolor="{colors.text}"];',
        f'edge [color="{colors.line}", arrowhead=none];',
    ]
    queue, seen = [root], set[str]()
    while queue:
        name = queue.pop(0)
        if name in seen or name not in children:
            continue
        seen.add(name)
        style = f' [style="rounded,filled", fillcolor="{colors.highlight}"]' if name == highlighted else ""
        lines.append(f"{_quoted(name)}{style};")
        lines += [f"{_quoted(name)} -> {_quoted(child)};" for child in children[name]]
        queue += children[name]
    return "\n".join([*lines, "}"])


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _add_empty_answer(path: str, value: Any) -> None:
    """Adds a GET route to this module's router that always returns this value."""

    async def get_nothing(app_name: str, front: TheFront, services: TheServices) -> Response:
        tree_of(services)
        check_app(front, app_name)
        return JSONResponse(value)

    router.add_api_route(_APP + path, get_nothing, methods=["GET"])


for _path, _value in EMPTY_ANSWERS.items():
    _add_empty_answer(_path, _value)


@router.get("/config/telemetry")
async def get_consent(services: TheServices) -> Response:
    """Tells the page not to send usage statistics."""
    services.scope.require("agents:read")
    return JSONResponse({"telemetry": False})


@router.get(_APP + "/builder")
async def get_definition(app_name: str, front: TheFront, services: TheServices) -> Response:
    """Returns an empty agent file: agents cannot be edited here."""
    tree_of(services)
    check_app(front, app_name)
    return PlainTextResponse("")


@router.get(_APP + "/build_graph")
async def get_structure(app_name: str, front: TheFront, services: TheServices) -> Response:
    """Returns the agents that the caller may know of, nested."""
    tree = tree_of(services)
    check_app(front, app_name)
    return JSONResponse({"name": app_name, "root_agent": _nested(tree, front.runner.tree.root, DEEPEST)})


@router.get(_APP + "/build_graph_image")
async def get_images(
    app_name: str, front: TheFront, services: TheServices, dark_mode: bool = False, node: str | None = None
) -> Response:
    """Draws all agents, or those below the last agent of the path `node`."""
    tree = tree_of(services)
    check_app(front, app_name)
    names = [name for name in (node or "").split("/") if name]
    root = names[-1] if names else front.runner.tree.root
    if names and root not in tree:
        raise NothingHere("There is no such agent.", fix="See the app's info.")
    return JSONResponse({node or "": {"dotSrc": dot_of(_children(tree), root, dark=dark_mode)}})


@router.get(_APP + "/graph")
async def get_graph(app_name: str, front: TheFront, services: TheServices, dark_mode: bool = False) -> Response:
    """Draws all agents."""
    tree = tree_of(services)
    check_app(front, app_name)
    return JSONResponse({"dotSrc": dot_of(_children(tree), front.runner.tree.root, dark=dark_mode)})


@router.get(_APP + "/users/{user_id}/sessions/{session_id}/events/{event_id}/graph")
async def get_event_graph(app_name: str, session_id: str, event_id: str, front: TheFront, services: UserServices) -> Response:
    """Draws all agents and highlights the event's author; an empty object if it is not among the newest 1,000."""
    events = (await services.sessions.events(session_id, Window(last=MOST_EVENTS_SEARCHED))).events
    check_app(front, app_name)
    event = next((event for event in events if event.id == event_id), None)
    if event is None:
        return JSONResponse({})
    children = _children(tree_of(services))
    return JSONResponse({"dotSrc": dot_of(children, front.runner.tree.root, event.author)})


def _children(tree: Mapping[str, VisibleAgent]) -> dict[str, tuple[str, ...]]:
    return {name: agent.children for name, agent in tree.items()}


def _nested(tree: Mapping[str, VisibleAgent], name: str, deepest: int) -> dict[str, Any]:
    agent = tree.get(name)
    if agent is None:
        return {"name": name, "sub_agents": []}
    children = [_nested(tree, child, deepest - 1) for child in agent.children] if deepest else []
    return {"name": name, "description": agent.card.description, "type": "agent", "sub_agents": children}


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
