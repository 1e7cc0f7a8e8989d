"""What the OpenAPI of our own API promises: held against the running gateway by requests that schemathesis makes up."""

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_play import key_for, served

from turnwise import AgentContext, Runner, SqlSessionStore, agent
from turnwise.facts.gateway import AuthConfig, CallerLimits, GatewayConfig
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.telemetry.metrics import Metrics

MakeRunner = Callable[..., Runner]
ENOUGH = CallerLimits(requests=10**9, bytes=10**12, runs=10**4, failures=10**9)
OURS = r"^/(api/v1/(?!graph-chat)|metrics)"
OPEN = {"/api/v1/health", "/api/v1/ready", "/api/v1/version"}
EXAMPLES = 3
SECONDS = 240
CONFIGURATION = """
[phases.stateful]
max-steps = 40

[[operations]]
include-path = "/api/v1/decision-stream" # it has no end
enabled = false
"""


@agent
async def desk(message: str, context: AgentContext) -> str:
    if len(message) % 2:
        return f"You chose {(await context.ask('Which?')).text}"
    context.state["said"] = "so"
    return "so"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The OpenAPI as it is served."""

    async def fetched() -> dict[str, Any]:
        runner = Runner(desk, store=SqlSessionStore("sqlite://"))
        async with served(runner, GatewayConfig(auth=AuthConfig())) as client:
            found: dict[str, Any] = (await client.get("/openapi.json")).json()
        await runner.close()
        return found

    return asyncio.run(fetched())


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and operation of ours."""
    for path, methods in document["paths"].items():
        if re.search(OURS, path):
            yield from ((path, method, operation) for method, operation in methods.items())


async def test_requests_that_are_made_up_find_what_is_promised(make_runner: MakeRunner, tmp_path: Path) -> None:
    """In all phases, the stateful one among them: no defect, and no status, body or header that the OpenAPI does not tell."""
    metrics = Metrics()
    runner = make_runner(desk, policy="adk", artifacts=InMemoryArtifactStore(), hooks=[metrics])
    metrics.attach(runner)
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION, "utf-8")
    async with served(runner, GatewayConfig(auth=AuthConfig(), limits=ENOUGH), metrics=metrics) as client:
        headers = await key_for(runner, role="admin", user="ann")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{client.address}/openapi.json"),
            *("--header", f"Authorization: {headers['Authorization']}", "--include-path-regex", OURS),
            *("--max-examples", str(EXAMPLES), "--generation-deterministic"),
            # What is wrong in a way that no schema says, such as an unknown agent, is refused as any other mistake; and what is
            # deleted for one user, another may have under the same id.
            *("--exclude-checks", "positive_data_acceptance,use_after_free", "--continue-on-failure", "--no-color"),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
    report = said.decode()
    assert process.returncode == 0, report[-20_000:]
    assert all(f"✅ {phase}" in report for phase in ("Examples", "Coverage", "Fuzzing", "Stateful")), report
    covered = re.search(r"API Links: +(\d+) covered", report)
    assert covered is not None
    assert int(covered[1]) >= 15, report


def test_every_operation_is_explained_and_has_a_name_that_reads_well(document: dict[str, Any]) -> None:
    found = [operation for _, _, operation in operations(document)]
    every = [o["operationId"] for methods in document["paths"].values() for o in methods.values()]
    assert len(every) == len(set(every))
    for operation in found:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", operation["operationId"]), operation["operationId"]
        for needed in ("summary", "description", "tags"):
            assert operation[needed], operation["operationId"]
        good = next(each for status, each in operation["responses"].items() if status.startswith("2"))
        assert good["description"] != "Successful Response", operation["operationId"]


def test_all_but_three_say_which_credentials_they_take(document: dict[str, Any]) -> None:
    """Those of other protocols among them."""
    assert set(document["components"]["securitySchemes"]) == {"bearer", "api_key"}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["security"] == ([] if path in OPEN else [{"bearer": []}, {"api_key": []}]), path


async def test_where_everybody_may_enter_no_credential_is_asked_for(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        found = (await client.get("/openapi.json")).json()
        assert "securitySchemes" not in found["components"]
        assert not [path for path, methods in found["paths"].items() for each in methods.values() if "security" in each]


async def test_what_needs_no_credential_by_the_openapi_needs_none(make_runner: MakeRunner) -> None:
    """And everything else does: the document is held against the gateway that serves it. The page is public in any case."""
    async with served(make_runner(desk), GatewayConfig(auth=AuthConfig())) as client:
        assert (await client.get("/docs")).status_code == 200
        found = (await client.get("/openapi.json")).json()
        for path, methods in found["paths"].items():
            for method, operation in methods.items():
                answer = await client.request(method, re.sub(r"\{[^}]*\}", "1", path), json={})
                assert (answer.status_code == 401) == bool(operation["security"]), (method, path, answer.status_code)


def test_every_link_leads_to_an_operation_and_its_parameters(document: dict[str, Any]) -> None:
    known = {operation["operationId"]: operation for _, _, operation in operations(document)}
    links = [
        (status, link)
        for operation in known.values()
        for status, answer in operation["responses"].items()
        for link in answer.get("links", {}).values()
    ]
    assert len(links) > 30
    for _, link in links:
        target = known[link["operationId"]]
        parameters = {each["name"]: each for each in target.get("parameters", [])}
        assert set(link["parameters"]) <= set(parameters), link
        needed = {name for name, each in parameters.items() if each["required"]}
        assert needed <= set(link["parameters"]), link


def test_numbers_and_ids_have_bounds(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        for parameter in operation.get("parameters", []):
            options = parameter["schema"].get("anyOf", [parameter["schema"]])
            for schema in options:
                bound = {"string": "maxLength", "integer": "maximum"}.get(schema.get("type", ""))
                assert bound is None or bound in schema or "enum" in schema, (path, method, parameter["name"])


def test_the_bodies_of_mistakes_are_problem_details(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                assert set(answer["content"]) >= {"application/problem+json"}, (path, method, status)
