"""The OpenAPI document explains itself: each operation and property has a description and an example that fits."""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from gateway_play import served

from turnwise import Runner, SqlSessionStore, agent
from turnwise.facts.gateway import AuthConfig, GatewayConfig

Document = dict[str, Any]
GENERATOR = "openapi-python-client"
IN_VENV = Path(__file__).resolve().parents[3] / ".venv" / "peers" / "generator" / "bin" / GENERATOR


@agent
def desk(message: str) -> str:
    return message


async def fetched(auth: AuthConfig | None) -> Document:
    runner = Runner(desk, store=SqlSessionStore("sqlite://"))
    async with served(runner, GatewayConfig(auth=auth)) as client:
        await client.get("/openapi.json")
        found: Document = (await client.get("/openapi.json")).json()
    await runner.close()
    return found


@pytest.fixture(scope="module")
def document() -> Document:
    return asyncio.run(fetched(AuthConfig()))


def properties(document: Document) -> Iterator[tuple[str, Document]]:
    for name, schema in document["components"]["schemas"].items():
        yield from ((f"{name}.{key}", value) for key, value in schema.get("properties", {}).items())


def operations(document: Document) -> Iterator[tuple[str, Document]]:
    for path, methods in document["paths"].items():
        yield from ((f"{method} {path}", operation) for method, operation in methods.items())


def misfit(document: Document, schema: Document, value: Any) -> str:
    """Returns why the value does not fit the schema; empty if it does."""
    whole = {**schema, "components": document["components"]}
    error = next(iter(jsonschema.Draft202012Validator(whole).iter_errors(value)), None)
    return error.message if error is not None else ""


def test_every_property_has_a_description(document: Document) -> None:
    assert [name for name, value in properties(document) if not value.get("description", "").strip()] == []


def test_every_property_has_an_example_that_fits(document: Document) -> None:
    wrong = {}
    for name, value in properties(document):
        schema = {key: each for key, each in value.items() if key != "examples"}
        for example in value.get("examples") or ["no example at all"]:
            if why := misfit(document, schema, example):
                wrong[name] = why
    assert wrong == {}


def test_no_example_of_a_text_is_made_up(document: Document) -> None:
    """A text without an example of its own would get "text", which is only right for a constant or an enumeration."""
    texts = [(name, value) for name, value in properties(document) if value["examples"] == ["text"]]
    assert [name for name, value in texts if not value.keys() & {"const", "enum"}] == []


def test_every_operation_and_parameter_has_a_description(document: Document) -> None:
    missing = [name for name, operation in operations(document) if not operation.get("description", "").strip()]
    missing += [
        f"{name} {parameter['name']}"
        for name, operation in operations(document)
        for parameter in operation.get("parameters", [])
        if not parameter.get("description", "").strip()
    ]
    assert missing == []


def test_every_json_body_has_an_example_that_fits(document: Document) -> None:
    wrong, seen = {}, 0
    for name, operation in operations(document):
        bodies = [operation.get("requestBody", {})]
        bodies += [each for status, each in operation["responses"].items() if status.startswith("2")]
        for media in (body.get("content", {}).get("application/json") for body in bodies):
            if media is None:
                continue
            seen += 1
            assert "example" in media or "examples" in media, name
            if "example" in media and (why := misfit(document, media["schema"], media["example"])):
                wrong[name] = why
    assert wrong == {}
    assert seen > 50


def test_the_openai_operations_name_their_credentials_and_read_well(document: Document) -> None:
    found = [(name, operation) for name, operation in operations(document) if " /v1/" in name]
    assert len(found) >= 10
    for name, operation in found:
        assert operation["security"] == [{"bearer": []}, {"api_key": []}], name
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", operation["operationId"]), operation["operationId"]


def test_examples_do_not_depend_on_credentials(document: Document) -> None:
    without = asyncio.run(fetched(None))
    assert without["components"]["schemas"] == document["components"]["schemas"]


def test_a_stock_generator_produces_every_operation(document: Document, tmp_path: Path) -> None:
    """In an environment of its own, which `./dev test` makes. It warns of what it leaves out, and nothing may be left out."""
    generator = str(IN_VENV) if IN_VENV.exists() else shutil.which(GENERATOR)
    if generator is None:
        pytest.skip(f"{GENERATOR} is not installed: ./dev test installs it into .venv/peers/generator")
    (tmp_path / "openapi.json").write_text(json.dumps(document), "utf-8")
    # The generator must be told that a ZIP archive is bytes.
    (tmp_path / "config.yaml").write_text("content_type_overrides: {application/zip: application/octet-stream}", "utf-8")
    command = [generator, "generate", "--path", "openapi.json", "--output-path", "client", "--meta", "none"]
    command += ["--config", "config.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    left_out = re.findall(r"^(WARNING|ERROR).*", done.stdout + done.stderr, re.MULTILINE)
    assert left_out == [], done.stdout + done.stderr
    made = {file.stem for file in (tmp_path / "client" / "api").rglob("*.py")} - {"__init__"}
    assert made == {operation["operationId"] for _, operation in operations(document)}
