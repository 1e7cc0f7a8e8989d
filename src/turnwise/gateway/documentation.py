"""The page that displays the OpenAPI document: Swagger UI, served from here so that it works offline."""

from collections.abc import Mapping
from importlib.resources import as_file, files
from types import MappingProxyType
from typing import Any

from fastapi import APIRouter
from starlette.responses import FileResponse, HTMLResponse, Response

from turnwise.facts.gateway import AuthConfig

DOCUMENTATION, OPENAPI = "/docs", "/openapi.json"

_POLICY = (
    # Swagger UI sets inline styles.
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'"
)
# URLs are relative to the page, because a proxy may serve it below another path.
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Turnwise</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="page"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
_START = """SwaggerUIBundle({
  url: "openapi.json", dom_id: "#page", deepLinking: true, defaultModelsExpandDepth: 0,
  presets: [SwaggerUIBundle.presets.apis], layout: "BaseLayout"
});
"""

router = APIRouter(include_in_schema=False)


@router.get(DOCUMENTATION)
async def page() -> Response:
    return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY})


@router.get(f"{DOCUMENTATION}/start.js")
async def start() -> Response:
    return Response(_START, media_type="text/javascript")


@router.get(f"{DOCUMENTATION}/swagger-ui.css")
async def style() -> Response:
    return _file("swagger-ui.css")


@router.get(f"{DOCUMENTATION}/swagger-ui-bundle.js")
async def script() -> Response:
    return _file("swagger-ui-bundle.js")


def _file(name: str) -> Response:
    with as_file(files("fastapi_offline") / "static" / name) as path:
        return FileResponse(path, headers={"Cache-Control": "public, max-age=86400"})


OPEN: dict[str, Any] = {"security": []}
"""OpenAPI entry of an operation that never needs a credential."""


def schemes_for(auth: AuthConfig | None) -> Mapping[str, Any]:
    """Returns the security schemes by name; empty if the gateway needs no credentials."""
    if auth is None:
        return {}
    kinds = [kind for kind, counts in (("an API key", auth.keys), ("a JSON web token", auth.jwt is not None)) if counts]
    found = {"bearer": {"type": "http", "scheme": "bearer", "description": f"Takes {' or '.join(kinds)}."}}
    return found | ({"api_key": dict(_API_KEY)} if auth.keys else {})


def add_security_schemes(document: dict[str, Any], auth: AuthConfig | None) -> None:
    """Adds the security schemes to the OpenAPI document and to each operation that needs one. Idempotent."""
    schemes = schemes_for(auth)
    if schemes:
        document.setdefault("components", {})["securitySchemes"] = dict(schemes)
    for operations in document["paths"].values():
        for operation in operations.values():
            if not schemes:
                operation.pop("security", None)
            elif operation.get("security") != []:
                operation["security"] = [{name: []} for name in schemes]


_API_KEY: Mapping[str, str] = MappingProxyType(
    {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key."}
)
