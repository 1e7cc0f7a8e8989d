"""Routes about the app: health, version, the list of apps, and the agents of the app."""

import platform
from collections.abc import Mapping
from importlib.metadata import version as version_of
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.responses import JSONResponse, Response

from turnwise.facts.errors import NothingHere
from turnwise.gateway.front import Front, TheFront, TheServices
from turnwise.gateway.services import Services
from turnwise.gateway.services.agents import VisibleAgent

router = APIRouter(include_in_schema=False)
ALL_AGENTS = 1_000_000
LANGUAGE = "python"
_HIDDEN: Mapping[str, Any] = {"instruction": "", "tools": []}


def check_app(front: Front, name: str | None) -> None:
    """Raises NothingHere unless the name is this gateway's app. None stands for it, too."""
    if name not in (None, front.runner.app):
        raise NothingHere("There is no such app.", fix="See GET /list-apps.", where=("appName",))


async def _for_user(user_id: str, services: TheServices) -> Services:
    return services.for_user(user_id)


UserServices = Annotated[Services, Depends(_for_user)]
"""The services for the caller, for the user in the path."""


def tree_of(services: Services) -> dict[str, VisibleAgent]:
    """Returns the agents that the caller may know of, in tree order. Raises Forbidden."""
    page, _ = services.agents.page(after=None, limit=ALL_AGENTS)
    return {agent.card.name: agent for agent in page}


@router.get("/health")
async def is_alive() -> Response:
    """Liveness probe."""
    return JSONResponse({"status": "ok"})


@router.get("/version")
async def get_version(services: TheServices) -> Response:
    """Returns Turnwise's version, not the ADK's."""
    services.scope.require("agents:read")
    body = {"version": version_of("turnwise"), "language": LANGUAGE, "language_version": platform.python_version()}
    return JSONResponse(body)


@router.get("/list-apps")
async def list_apps(front: TheFront, services: TheServices, detailed: bool = False) -> Response:
    """Lists the only app."""
    tree = tree_of(services)
    return JSONResponse({"apps": [_info(front, tree)]} if detailed else [front.runner.app])


@router.get("/apps/{app_name}/app-info")
async def get_app_info(app_name: str, front: TheFront, services: TheServices) -> Response:
    """Describes the app and its agents. Instructions and tools are never revealed."""
    tree = tree_of(services)
    check_app(front, app_name)
    agents = {
        name: {"name": name, "description": agent.card.description, **_HIDDEN, "sub_agents": list(agent.children)}
        for name, agent in tree.items()
    }
    return JSONResponse({**_info(front, tree), "agents": agents})


def _info(front: Front, tree: Mapping[str, VisibleAgent]) -> dict[str, Any]:
    """Returns the app as the ADK lists it, with the root agent's description if the caller sees that agent."""
    root = front.runner.tree.root
    agent = tree.get(root)
    return {
        "name": front.runner.app,
        "rootAgentName": root,
        "description": agent.card.description if agent else "",
        "language": LANGUAGE,
        "isComputerUse": False,
    }
