"""The REST interface of Google's Agent Development Kit (ADK), below `/adk`, for its clients and its development web page."""

from pathlib import Path

from fastapi import APIRouter

from turnwise.facts.gateway import AdkConfig
from turnwise.gateway.adk import apps, artifacts, development, sessions
from turnwise.gateway.adk.development import page
from turnwise.gateway.adk.schema import error_response

PREFIX = "/adk"


def router_for(config: AdkConfig) -> APIRouter:
    """Builds the routes, including the web page if one is configured."""
    router = APIRouter()
    for part in (apps.router, sessions.router, artifacts.router, sessions.run_router, development.router):
        router.include_router(part)
    if config.web is not None:
        router.include_router(page(Path(config.web), PREFIX))
    return router


__all__ = ["PREFIX", "error_response", "router_for"]
