"""What the OpenAPI says beside the types: names of operations, and what leads where."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute

Responses = dict[int | str, dict[str, Any]]
"""What the OpenAPI says of answers, by status."""


def _name(route: APIRoute) -> str:
    return route.name


def api_router(tag: str) -> APIRouter:
    """A router whose operations are named as their functions."""
    return APIRouter(tags=[tag], generate_unique_id_function=_name)


def link(
    operation: str, description: str, parameters: Mapping[str, str], body: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A link to that operation; its parameters, and what stands in its body, may be runtime expressions."""
    found = {"operationId": operation, "description": description, "parameters": parameters}
    return found if body is None else {**found, "requestBody": body}


LOCATION = {"Location": {"description": "Where it is.", "schema": {"type": "string", "format": "uri-reference"}}}
STREAM = {"text/event-stream": {"schema": {"type": "string", "description": "Server-sent events, the last one `answer`."}}}
