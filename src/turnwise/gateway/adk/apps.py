"""Routes about the app: health, version, the list of apps, and the agents of the app."""

import platform
from collections.abc import Mapping
from importlib.metadata import version as version_of
from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from turnwise.facts.callers import Caller
from turnwise.facts.errors import NothingHere
from turnwise.gateway.front import Front, TheCaller, TheFront
from turnwise.gateway.services.agents import VisibleAgent

router = APIRouter(include_in_schema=False)
ALL_AGENTS = 1_000_000
LANGUAGE = "python"
_HIDDEN: Mapping[str, Any] = {"instruction": "", "tools": []}


def check_app(front: Front, name: str | None) -> None:
    """Raises NothingHere unless the name is this gateway's app. None stands for it, too."""
    if name not in (None, front.runner.app):
        raise NothingHere("There is no such app.", fix="See GET /list-apps.", where=("appName",))


def tree_of(front: Front, caller: Caller) -> dict[str, VisibleAgent]:
    """Returns the agents that the caller may know of, in tree order. Raises Forbidden."""
    page, _ = front.agents.page(caller, after=None, limit=ALL_AGENTS)
    return {agent.card.name: agent for agent in page}


@router.get("/health")
async def is_alive() -> Response:
    """Liveness probe."""
    return JSONResponse({"status": "ok"})


@router.get("/version")
async def get_version(front: TheFront, caller: TheCaller) -> Response:
    """Returns Turnwise's version, not the ADK's."""
    front.scope.require(caller, "agents:read")
    body = {"version": version_of("turnwise"), "language": LANGUAGE, "language_version": platform.python_version()}
    return JSONResponse(body)


@router.get("/list-apps")
async def list_apps(front: TheFront, caller: TheCaller, detailed: bool = False) -> Response:
    """Lists the only app."""
    tree = tree_of(front, caller)
    return JSONResponse({"apps": [_info(front, tree)]} if detailed else [front.runner.app])


@router.get("/apps/{app_name}/app-info")
async def get_app_info(app_name: str, front: TheFront, caller: TheCaller) -> Response:
    """Describes the app and its agents. Instructions and tools are never revealed."""
    tree = tree_of(front, caller)
    check_app(front, app_name)
    agents = {
        name: {"name": name, "description": agent.card.description, **_HIDDEN, "sub_agents": list(agent.children)}
        for name, agent in tree.items()
    }
    return JSONResponse({**_info(front, tree), "agents": agents})


def _info(front: Front, tree: Mapping[str, VisibleAgent]) -> dict[str, Any]:
    root = front.runner.tree.root
    agent = tree.get(root)
    return {
        "name": front.runner.app,
        "rootAgentName": root,
        "description": agent.card.description if agent else "",
        "language": LANGUAGE,
        "isComputerUse": False,
    }
