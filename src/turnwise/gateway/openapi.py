"""The OpenAPI document: parts that routes share, descriptions and examples of properties, security schemes, and the page.

The page is Swagger UI, served from here so that it works offline.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import as_file, files
from types import MappingProxyType
from typing import Any

import yaml
from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.responses import FileResponse, HTMLResponse, Response

from turnwise.config.schema import field_docs
from turnwise.facts.gateway import AuthConfig

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
OPEN: dict[str, Any] = {"security": []}
"""OpenAPI entry of an operation that never needs a credential."""

DOCUMENTATION, OPENAPI = "/docs", "/openapi.json"


Schema = dict[str, Any]

_REF = "#/components/schemas/"
_DEPTH = 4
"""Examples of schemas that contain themselves end at this depth."""
_BY_TYPE: Mapping[str, Any] = {"boolean": True, "integer": 1, "number": 0.5, "object": {}, "null": None}
_MODULES = "__"
"""pydantic names a schema `package__module__Model` where two models have one name."""


class _Notes:
    """The table of `properties.yaml`: description and example by property, or by schema and property."""

    def __init__(self, table: Mapping[str, list[Any]]) -> None:
        self._table = table

    def description(self, schema: str, name: str) -> str:
        """Returns the description; empty if the table has none."""
        return str(self._entry(schema, name)[0])

    def has_example(self, schema: str, name: str) -> bool:
        return len(self._entry(schema, name)) > 1

    def example(self, schema: str, name: str) -> Any:
        return self._entry(schema, name)[1]

    def _entry(self, schema: str, name: str) -> list[Any]:
        return self._table.get(f"{schema}.{name}") or self._table.get(name) or [""]


@cache
def _notes() -> _Notes:
    return _Notes(yaml.safe_load((files("turnwise.gateway") / "properties.yaml").read_text("utf-8")))


def describe(document: dict[str, Any]) -> None:
    """Adds what is missing to the document. Idempotent: what is present is kept."""
    schemas = document.get("components", {}).get("schemas", {})
    models = _Models()
    examples = _Examples(schemas)
    for name, schema in schemas.items():
        docs = models.docs(name, schema)
        for key, value in schema.get("properties", {}).items():
            _describe_property(examples, name, key, value, docs.get(key, ""))
    for operations in document["paths"].values():
        for operation in operations.values():
            _describe_operation(examples, operation)


def _describe_property(examples: "_Examples", schema: str, name: str, value: Schema, doc: str) -> None:
    short = schema.rpartition(_MODULES)[2]
    if text := " ".join(doc.split()) or _notes().description(short, name):
        value.setdefault("description", text)
    if "examples" not in value and "example" not in value:
        value["examples"] = [examples.of_property(short, name, value)]


def _describe_operation(examples: "_Examples", operation: dict[str, Any]) -> None:
    """Adds descriptions and examples to an operation's parameters, request body and successful responses."""
    for parameter in operation.get("parameters", []):
        key = f"?{parameter['name']}"
        if text := _notes().description("", key):
            parameter.setdefault("description", text)
        if _notes().has_example("", key):
            parameter.setdefault("example", _notes().example("", key))
    bodies = [operation.get("requestBody", {})]
    bodies += [each for status, each in operation["responses"].items() if status.startswith("2")]
    for body in bodies:
        for kind, media in body.get("content", {}).items():
            if kind == "application/json" and "example" not in media and "examples" not in media:
                media["example"] = examples.of(media.get("schema", {}))


class _Examples:
    """Makes examples that fit a schema."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas

    def of_property(self, schema: str, name: str, value: Schema, depth: int = 0) -> Any:
        """Returns the constant, the example of the table, or one that follows from the type."""
        fixed = _fixed(value)
        if fixed is None and _notes().has_example(schema, name):
            return _notes().example(schema, name)
        return self.of(value, depth)

    def of(self, schema: Schema, depth: int = 0) -> Any:
        """Returns an example that follows from the type; strings are "text"."""
        if (fixed := _fixed(schema)) is not None:
            return fixed
        for options in (schema.get("anyOf"), schema.get("oneOf"), schema.get("allOf")):
            if options:
                return self.of(next((each for each in options if each.get("type") != "null"), options[0]), depth)
        if "$ref" in schema:
            return self._of_component(schema["$ref"].removeprefix(_REF), depth + 1)
        kind = schema.get("type")
        if kind == "array":
            return [] if depth >= _DEPTH or not schema.get("items") else [self.of(schema["items"], depth + 1)]
        if kind == "object" and "properties" in schema:
            return self._of_properties(schema.get("title", ""), schema, depth)
        return "text" if kind == "string" else _BY_TYPE.get(str(kind))

    def _of_component(self, name: str, depth: int) -> Any:
        schema = self._schemas[name]
        if "properties" not in schema:
            return self.of(schema, depth)
        return self._of_properties(name.rpartition(_MODULES)[2], schema, depth)

    def _of_properties(self, name: str, schema: Schema, depth: int) -> dict[str, Any]:
        """The required properties; nested values of properties that may be omitted end soonest."""
        required = set(schema.get("required", []))
        return {
            key: self.of_property(name, key, value, depth)
            for key, value in schema["properties"].items()
            if key in required or (depth <= 1 and _is_scalar(value))
        }


def _fixed(schema: Schema) -> Any:
    if "const" in schema:
        return schema["const"]
    return next(iter(schema.get("enum", [])), None)


def _is_scalar(schema: Schema) -> bool:
    return schema.get("type") in {"string", "integer", "number", "boolean"}


class _Models:
    """Finds the model of a schema by its name and its properties."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[type[BaseModel]]] = {}
        for model in _subclasses(BaseModel):
            if model.__module__.startswith("turnwise."):
                self._by_name.setdefault(model.__name__, []).append(model)

    def docs(self, name: str, schema: Schema) -> Mapping[str, str]:
        """Returns the documentation of the model's fields by property; empty for a schema without a model."""
        module, _, short = name.rpartition(_MODULES)
        properties = set(schema.get("properties", {}))
        for model in self._by_name.get(short, []):
            aliases = {field.alias or key: key for key, field in model.model_fields.items()}
            is_same_module = not module or model.__module__ == module.replace(_MODULES, ".")
            if is_same_module and properties <= set(aliases):
                docs = field_docs(model)
                return {alias: docs[key] for alias, key in aliases.items() if key in docs}
        return {}


def _subclasses(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in model.__subclasses__():
        yield each
        yield from _subclasses(each)


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
