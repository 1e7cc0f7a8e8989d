"""Adds a description and an example to every property and operation of the OpenAPI document."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from pydantic import BaseModel

from turnwise.config.schema import field_docs

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
