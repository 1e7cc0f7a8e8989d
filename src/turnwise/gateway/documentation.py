"""The page that displays the OpenAPI document: Swagger UI, served from here so that it works offline."""

from importlib.resources import as_file, files

from fastapi import APIRouter
from starlette.responses import FileResponse, HTMLResponse, Response

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
