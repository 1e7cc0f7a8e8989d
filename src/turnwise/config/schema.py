"""The JSON schema of `turnwise.yaml`, for editors, and the documentation of model fields in it.

It is generated from the models that the loader validates with. It describes the structure only: `turnwise check` also checks
names, import paths and thresholds. Descriptions are the strings below the fields in the source, which is parsed when a schema
is made, never at import.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from turnwise.config.app_file import AppFile
from turnwise.config.validation import OneOf
from turnwise.facts.gateway import Switch

Schema = dict[str, Any]

DIALECT = "http://json-schema.org/draft-07/schema#"
"""Editors support this draft fully, newer drafts only in part."""
FROM_ENVIRONMENT: Schema = {"type": "string", "pattern": r"\$\{"}
_TYPED = ("integer", "number", "boolean")
_BY_NAME = ("properties", "definitions", "patternProperties")
_DATA = ("default", "enum", "const", "required", "pattern", "not")


def file_schema() -> Schema:
    """Returns the schema of the whole file, as plain data."""
    schema = AppFile.model_json_schema(ref_template="#/definitions/{model}")
    definitions = schema.pop("$defs")
    _add_descriptions(schema, definitions)
    switches: list[type[Switch]] = [Switch, *Switch.__subclasses__()]
    for name in (switch.__name__ for switch in switches):  # `true` and `false` stand for the whole section
        definitions[name] = {"anyOf": [{"type": "boolean"}, definitions[name]]}
    return {"$schema": DIALECT, "title": "turnwise.yaml", **_as_written({**schema, "definitions": definitions})}


def _add_descriptions(schema: Schema, definitions: Schema) -> None:
    """Describes each key by the text below its field in the code."""
    models = {model.__name__: model for model in _models_of(AppFile)}
    for name, definition in {AppFile.__name__: schema, **definitions}.items():
        model = models.get(name)
        if model is None:  # any JSON value
            continue
        docs = field_docs(model)
        for field, info in model.model_fields.items():
            value = definition.get("properties", {}).get(info.alias or field)
            if value is not None and field in docs:
                value.setdefault("description", " ".join(docs[field].split()))


def _models_of(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yields the model and every model in its fields."""
    seen: set[type[BaseModel]] = set()
    waiting: list[Any] = [model]
    while waiting:
        found = waiting.pop()
        waiting += [found.union] if isinstance(found, OneOf) else get_args(found)
        if isinstance(found, type) and issubclass(found, BaseModel) and found not in seen:
            seen.add(found)
            yield found
            waiting += [each for field in found.model_fields.values() for each in (field.annotation, *field.metadata)]


def _as_written(schema: Any) -> Any:
    """Forbids unknown keys. Lets numbers, booleans, enums and patterned text also be a variable, such as ${NAME}."""
    if isinstance(schema, list):
        return [_as_written(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: value if key in _DATA else _below(key, value) for key, value in schema.items() if key != "title"}
    if "oneOf" in found:
        found["anyOf"] = found.pop("oneOf")  # a variable may fit several forms
    if "properties" in found:
        found["additionalProperties"] = False
    is_typed = found.get("type") in _TYPED or "enum" in found or (found.get("type") == "string" and "pattern" in found)
    if not is_typed:
        return found
    beside = {key: found.pop(key) for key in ("description", "default") if key in found}
    return {"anyOf": [found, FROM_ENVIRONMENT], **beside}


def _below(key: str, value: Any) -> Any:
    return {name: _as_written(each) for name, each in value.items()} if key in _BY_NAME else _as_written(value)


@cache
def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Returns the documentation by field name; inherited fields included, fields without any left out."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if each is not BaseModel and issubclass(each, BaseModel):
            found |= _own_docs(each)
    return found


def _own_docs(model: type[BaseModel]) -> dict[str, str]:
    """Returns the documentation of the fields that the class itself declares; empty without its source."""
    try:
        source = textwrap.dedent(inspect.getsource(model))
    except (OSError, TypeError):  # a class that was made at run time, or a bundle without sources
        return {}
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        is_field = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
        if is_field and is_text:
            found[field.target.id] = inspect.cleandoc(text.value.value)  # type: ignore[attr-defined]
    return found
