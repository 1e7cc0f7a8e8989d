"""The app, by the name that requests give it; what there is to know of it; and whether it is there at all."""

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
ALL = 1_000_000
LANGUAGE = "python"
_UNTOLD: Mapping[str, Any] = {"instruction": "", "tools": []}


def check_app(front: Front, name: str | None) -> None:
    """NothingHere for another app than this gateway's; None = its own."""
    if name not in (None, front.runner.app):
        raise NothingHere("There is no such app.", fix="See GET /list-apps.", where=("appName",))


def tree_of(front: Front, caller: Caller) -> dict[str, VisibleAgent]:
    """The agents that the caller may know of, in the tree's order. Forbidden."""
    page, _ = front.agents.page(caller, after=None, limit=ALL)
    return {known.card.name: known for known in page}


@router.get("/health")
async def is_alive() -> Response:
    """Whether this process answers at all."""
    return JSONResponse({"status": "ok"})


@router.get("/version")
async def get_version(front: TheFront, caller: TheCaller) -> Response:
    """Ours; the ADK has no part in it."""
    front.scope.require(caller, "agents:read")
    told = {"version": version_of("turnwise"), "language": LANGUAGE, "language_version": platform.python_version()}
    return JSONResponse(told)


@router.get("/list-apps")
async def list_apps(front: TheFront, caller: TheCaller, detailed: bool = False) -> Response:
    """The one app there is."""
    tree = tree_of(front, caller)
    return JSONResponse({"apps": [_info(front, tree)]} if detailed else [front.runner.app])


@router.get("/apps/{app_name}/app-info")
async def get_app_info(app_name: str, front: TheFront, caller: TheCaller) -> Response:
    """The app and its agents. What they are instructed to do, and which tools they have, is not told."""
    tree = tree_of(front, caller)
    check_app(front, app_name)
    agents = {
        name: {"name": name, "description": known.card.description, **_UNTOLD, "sub_agents": list(known.children)}
        for name, known in tree.items()
    }
    return JSONResponse({**_info(front, tree), "agents": agents})


def _info(front: Front, tree: Mapping[str, VisibleAgent]) -> dict[str, Any]:
    root = front.runner.tree.root
    known = tree.get(root)
    return {
        "name": front.runner.app,
        "rootAgentName": root,
        "description": known.card.description if known else "",
        "language": LANGUAGE,
        "isComputerUse": False,
    }
