"""What the OpenAPI says beside the types: credentials, names of operations, and what leads where."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Security
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader, HTTPBearer

Responses = dict[int | str, dict[str, Any]]
"""What the OpenAPI says of answers, by status."""

_BEARER = HTTPBearer(
    auto_error=False, scheme_name="bearer", description="An API key of `turnwise keys create`, or a JSON web token."
)
_API_KEY = APIKeyHeader(name="X-API-Key", auto_error=False, scheme_name="api_key", description="An API key.")


def _name(route: APIRoute) -> str:
    return route.name


def routes(tag: str, *, credentials: bool = True) -> APIRouter:
    """A router whose operations are named as their functions; with credentials it says which it takes. The doors check them."""
    said = [Security(_BEARER), Security(_API_KEY)] if credentials else []
    return APIRouter(tags=[tag], generate_unique_id_function=_name, dependencies=said)


def link(
    operation: str, description: str, parameters: Mapping[str, str], body: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A link to that operation; its parameters, and what stands in its body, may be runtime expressions."""
    found = {"operationId": operation, "description": description, "parameters": parameters}
    return found if body is None else {**found, "requestBody": body}


LOCATION = {"Location": {"description": "Where it is.", "schema": {"type": "string", "format": "uri-reference"}}}
STREAM = {"text/event-stream": {"schema": {"type": "string", "description": "Server-sent events, the last one `answer`."}}}
