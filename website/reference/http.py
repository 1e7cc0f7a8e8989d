"""The HTTP operations, from the OpenAPI document of the gateway."""

import json
from collections.abc import Iterator
from typing import Any

from reference import plain, table
from turnwise import Runner, SqlSessionStore, agent
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.gateway.app import gateway
from turnwise.gateway.server import front_for

Document = dict[str, Any]
EXAMPLE_CHARACTERS = 1_500
"""Longer examples are left out: the properties below the operations describe them."""


@agent
def desk(message: str) -> str:
    """Stands for the agents of an app; the document does not depend on them."""
    return message


def document() -> Document:
    """Returns the OpenAPI document of a gateway that accepts keys."""
    runner = Runner(desk, store=SqlSessionStore("sqlite://"))
    return gateway(front_for(runner, GatewayConfig(auth=AuthConfig()))).openapi()


def page() -> str:
    """Returns the operations by tag, then the schemas."""
    found = document()
    return "\n".join([*_operations(found), *_schemas(found)])


def _operations(found: Document) -> Iterator[str]:
    tags: dict[str, list[tuple[str, str, Document]]] = {}
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation.get("tags", ["other"])[0], []).append((method.upper(), path, operation))
    for tag, operations in tags.items():
        yield f"\n## {tag}\n"
        for method, path, operation in operations:
            yield f"\n### {operation['operationId']}\n\n`{method} {path}`\n"
            yield f"{plain(operation['description'])}\n"
            if operation.get("security") == []:
                yield "Needs no credential.\n"
            parameters = operation.get("parameters", [])
            yield table(
                ("parameter", "in", ""),
                ((f"`{each['name']}`", each["in"], plain(each.get("description", ""))) for each in parameters),
            )
            yield from _example("Request", operation.get("requestBody", {}))
            for status, response in operation["responses"].items():
                if status.startswith("2"):
                    yield from _example(f"Response {status}", response)
            refused = [status for status in operation["responses"] if not status.startswith("2")]
            yield f"Errors: {', '.join(refused)}.\n" if refused else ""


def _example(title: str, body: Document) -> Iterator[str]:
    media = body.get("content", {}).get("application/json", {})
    if "example" not in media:
        return
    reference = media.get("schema", {}).get("$ref", "").rpartition("/")[2]
    yield f"{title}{f': [{reference}](#{_anchor(reference)})' if reference else ''}\n"
    text = json.dumps(media["example"], indent=2, ensure_ascii=False)
    if len(text) <= EXAMPLE_CHARACTERS:
        yield f"```json\n{text}\n```\n"


def _schemas(found: Document) -> Iterator[str]:
    yield "\n## Schemas\n"
    for name, schema in sorted(found["components"]["schemas"].items()):
        properties = schema.get("properties", {})
        if not properties:
            continue
        yield f"\n### {name} {{ #{_anchor(name)} }}\n"
        yield f"{plain(schema.get('description', ''))}\n"
        required = schema.get("required", [])
        rows = (
            (
                f"`{key}`{' (required)' if key in required else ''}",
                _kind(each),
                plain(each.get("description", "")),
                _shown(each),
            )
            for key, each in properties.items()
        )
        yield table(("property", "type", "", "example"), rows)


def _shown(schema: Document) -> str:
    text = json.dumps(schema["examples"][0], ensure_ascii=False)
    return f"`{text}`" if len(text) <= 60 and "`" not in text else ""


def _kind(schema: Document) -> str:
    if reference := schema.get("$ref", "").rpartition("/")[2]:
        return str(reference)
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_kind(each) for each in options))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _anchor(name: str) -> str:
    return f"schema-{name.lower()}"
