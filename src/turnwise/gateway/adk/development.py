"""Routes that only the ADK's development page calls: drawings of the agents, and empty answers for unsupported features such as
traces and evaluations.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from fastapi import APIRouter
from starlette.responses import JSONResponse, PlainTextResponse, Response

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
