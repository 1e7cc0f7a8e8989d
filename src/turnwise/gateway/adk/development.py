"""What the ADK's development page asks for beside conversations: drawings of the agents, and much that is not kept here, of
which there is none: no spans, no tests, no evaluations, no files of agents.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from fastapi import APIRouter
from starlette.responses import JSONResponse, PlainTextResponse, Response

from turnwise.facts.errors import NothingHere
from turnwise.gateway.adk.apps import check_app, tree_of
from turnwise.gateway.front import TheCaller, TheFront
from turnwise.gateway.services.agents import VisibleAgent
from turnwise.gateway.services.sessions import Window


class Colors(NamedTuple):
    ground: str
    line: str
    text: str
    marked: str


LIGHT = Colors("#ffffff", "#80868b", "#202124", "#69CB87")
DARK = Colors("#333537", "#cccccc", "#ffffff", "#0F5223")


def dot_of(children: Mapping[str, Collection[str]], root: str, marked: str | None = None, *, dark: bool = False) -> str:
    """The agents from `root` on, with who is below whom. marked: the one that stands out."""
    colors = DARK if dark else LIGHT
    lines = [
        "digraph agents {",
        f'rankdir=LR; bgcolor="{colors.ground}";',
        f'node [shape=box, style="rounded", color="{colors.line}", fontcolor="{colors.text}"];',
        f'edge [color="{colors.line}", arrowhead=none];',
    ]
    below, seen = [root], set[str]()
    while below:
        name = below.pop(0)
        if name in seen or name not in children:
            continue
        seen.add(name)
        stands_out = f' [style="rounded,filled", fillcolor="{colors.marked}"]' if name == marked else ""
        lines.append(f"{_quoted(name)}{stands_out};")
        lines += [f"{_quoted(name)} -> {_quoted(child)};" for child in children[name]]
        below += children[name]
    return "\n".join([*lines, "}"])


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


router = APIRouter(include_in_schema=False)
LOOKED_AT = 1_000
"""Among how many of a session's events one is looked for, the newest."""
DEEPEST = 50
"""How many agents may stand below each other in a drawing."""
NOTHING: Mapping[str, Any] = {
    "/debug/trace/session/{session_id}": [],
    "/debug/trace/{event_id}": {},
    "/tests": [],
    "/eval_sets": [],
    "/eval-sets": {"evalSetIds": []},
    "/eval_results": [],
    "/eval-results": {"evalResultIds": []},
    "/metrics-info": {"metricsInfo": []},
}
_APP = "/dev/apps/{app_name}"


def _add_nothing(path: str, value: Any) -> None:
    async def get_nothing(app_name: str, front: TheFront, caller: TheCaller) -> Response:
        tree_of(front, caller)
        check_app(front, app_name)
        return JSONResponse(value)

    router.add_api_route(_APP + path, get_nothing, methods=["GET"])


for _path, _value in NOTHING.items():
    _add_nothing(_path, _value)


@router.get("/config/telemetry")
async def get_consent(front: TheFront, caller: TheCaller) -> Response:
    """Whether the page is to tell others how it is used: never from here."""
    front.scope.require(caller, "agents:read")
    return JSONResponse({"telemetry": False})


@router.get(_APP + "/builder")
async def get_definition(app_name: str, front: TheFront, caller: TheCaller) -> Response:
    """The file of an agent: none, nobody edits agents here."""
    tree_of(front, caller)
    check_app(front, app_name)
    return PlainTextResponse("")


@router.get(_APP + "/build_graph")
async def get_structure(app_name: str, front: TheFront, caller: TheCaller) -> Response:
    """The agents that the caller may know of, each inside the one above it."""
    tree = tree_of(front, caller)
    check_app(front, app_name)
    return JSONResponse({"name": app_name, "root_agent": _inside(tree, front.runner.tree.root, DEEPEST)})


@router.get(_APP + "/build_graph_image")
async def get_images(
    app_name: str, front: TheFront, caller: TheCaller, dark_mode: bool = False, node: str | None = None
) -> Response:
    """A drawing of all agents, or of those from one on, by the path to it."""
    tree = tree_of(front, caller)
    check_app(front, app_name)
    names = [name for name in (node or "").split("/") if name]
    root = names[-1] if names else front.runner.tree.root
    if names and root not in tree:
        raise NothingHere("There is no such agent.", fix="See the app's info.")
    return JSONResponse({node or "": {"dotSrc": dot_of(_children(tree), root, dark=dark_mode)}})


@router.get(_APP + "/graph")
async def get_graph(app_name: str, front: TheFront, caller: TheCaller, dark_mode: bool = False) -> Response:
    """A drawing of all agents."""
    tree = tree_of(front, caller)
    check_app(front, app_name)
    return JSONResponse({"dotSrc": dot_of(_children(tree), front.runner.tree.root, dark=dark_mode)})


@router.get(_APP + "/users/{user_id}/sessions/{session_id}/events/{event_id}/graph")
async def get_event_graph(
    app_name: str, user_id: str, session_id: str, event_id: str, front: TheFront, caller: TheCaller
) -> Response:
    """The same, with the author of that event marked; nothing for an event that is not there."""
    found = (await front.sessions.events(caller, session_id, Window(last=LOOKED_AT), user_id)).events
    check_app(front, app_name)
    event = next((event for event in found if event.id == event_id), None)
    if event is None:
        return JSONResponse({})
    children = _children(tree_of(front, caller))
    return JSONResponse({"dotSrc": dot_of(children, front.runner.tree.root, event.author)})


def _children(tree: Mapping[str, VisibleAgent]) -> dict[str, tuple[str, ...]]:
    return {name: known.children for name, known in tree.items()}


def _inside(tree: Mapping[str, VisibleAgent], name: str, deepest: int) -> dict[str, Any]:
    known = tree.get(name)
    if known is None:
        return {"name": name, "sub_agents": []}
    below = [_inside(tree, child, deepest - 1) for child in known.children] if deepest else []
    return {"name": name, "description": known.card.description, "type": "agent", "sub_agents": below}
