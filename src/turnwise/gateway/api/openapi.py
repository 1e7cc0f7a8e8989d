"""Helpers for the OpenAPI document: operation ids, links and shared headers."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute

Responses = dict[int | str, dict[str, Any]]
"""OpenAPI responses by status."""


def _name(route: APIRoute) -> str:
    return route.name


def api_router(tag: str) -> APIRouter:
    """Returns a router that uses the names of the route functions as operation ids."""
    return APIRouter(tags=[tag], generate_unique_id_function=_name)


def link(
    operation: str, description: str, parameters: Mapping[str, str], body: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Returns an OpenAPI link to an operation. Values in `parameters` and `body` may be runtime expressions."""
    found = {"operationId": operation, "description": description, "parameters": parameters}
    return found if body is None else {**found, "requestBody": body}


LOCATION = {
    "Location": {"description": "The URL of the new resource.", "schema": {"type": "string", "format": "uri-reference"}}
}
STREAM = {"text/event-stream": {"schema": {"type": "string", "description": "Server-sent events; the last one is `answer`."}}}
