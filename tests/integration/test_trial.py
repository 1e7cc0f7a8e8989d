"""A draft is tried on recorded decisions before it counts (behaviour F5)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from cli_play import written
from gateway_play import Served, key_for
from runner_play import ask

from turnwise.assemble import App, load_app
from turnwise.facts.errors import DefinitionInvalid
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.sessions import SessionKey
from turnwise.facts.tree import Pattern
from turnwise.gateway.server import front_for, serving
from turnwise.learning.replay import places
from turnwise.learning.trial import Trial, try_definition
from turnwise.matching.disk_cache import VARIABLE
from turnwise.ports.definitions import AnyDefinition, Author, Definition, PolicyDefinition

CONFIGURATION = """
app: test
root: desk
agents: ['definition_agents:desk', 'definition_agents:parcels']
policy: {stages: [{selector: patterns}, {selector: semantic, options: {threshold: 0.6}}]}
encoder: {import: 'turnwise.testing.fake_encoder:BagOfWordsEncoder'}
"""
SENT = {"my parcel": "parcels", "my letter": "parcels", "a letter to the editor": "desk", "hello": "desk", "the crate": None}
"""Messages, with their labels."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return written(tmp_path, CONFIGURATION)


@asynccontextmanager
async def recorded(folder: Path) -> AsyncIterator[App]:
    """An app with recorded and labelled decisions."""
    app = load_app(folder)
    await app.serve_definitions()
    for number, (text, label) in enumerate(SENT.items()):
        await ask(app.runner, text, f"s{number}")
        if label is not None:
            await app.runner.store.decisions.label(SessionKey("test", "ada", f"s{number}"), 1, label)
    try:
        yield app
    finally:
        await app.runner.close()


async def tried(app: App, definition: AnyDefinition) -> Trial:
    assert app.editor is not None
    await app.runner.cascade.prepare()
    then = await app.editor.tried(definition)
    try:
        await then.prepare()
        found = await places(app.runner.store, "test")
        return await try_definition(app.runner.store, definition, app.runner.cascade, then, found, fitted=True)
    finally:
        then.close()


def draft(**fields: Any) -> Definition:
    return Definition(name="parcels", status="draft", **fields)


async def test_what_changes_from_whom_to_whom_and_whether_labels_call_it_right(folder: Path) -> None:
    async with recorded(folder) as app:
        trial = await tried(app, draft(patterns=(Pattern(regex="parcel"), Pattern(regex="letter"))))
        data = trial.data()
        assert (data["decisions"], data["changed"], data["labelled"]) == (5, 2, 4)
        assert (data["accuracy_before"], data["accuracy_after"], data["gain"]) == (0.75, 0.75, 0.0)
        assert [(each.before, each.after, each.count, each.right, each.wrong) for each in trial.found.flips] == [
            ("desk", "parcels", 2, 1, 1)
        ]
        assert (await app.runner.select("my letter")).agent == "desk", "nothing of it serves"


async def test_messages_that_are_its_examples_are_counted_apart(folder: Path) -> None:
    async with recorded(folder) as app:
        trial = await tried(app, draft(examples=("My  LETTER", "the crates and barrels")))
        assert (trial.found.decisions, trial.own.decisions) == (4, 1)
        assert [(each.before, each.after, each.right) for each in trial.own.flips] == [("desk", "parcels", 1)]
        assert all("my letter" not in each.examples for each in trial.found.flips)


async def test_a_change_is_the_definitions_own(folder: Path) -> None:
    """What others changed since the decisions were recorded does not count."""
    async with recorded(folder) as app:
        assert app.editor is not None
        author = Author("test", SystemIssuer().now())
        await app.editor.put([Definition(name="parcels", patterns=(Pattern(regex="letter"),))], {}, author)
        await app.serve_definitions()
        trial = await tried(app, draft(patterns=(Pattern(regex="letter"),)))
        assert (trial.found.decisions, trial.found.equal) == (5, 5)
        trial = await tried(app, draft(patterns=(Pattern(regex="letter"), Pattern(regex="crate"))))
        assert [each.examples for each in trial.found.flips] == [("the crate",)]


async def test_lint_finds_what_the_draft_makes_worse(folder: Path) -> None:
    async with recorded(folder) as app:
        trial = await tried(app, draft(patterns=(Pattern(regex=".*"),)))
        assert [finding.code for finding in trial.findings if finding.severity == "error"] == ["pattern.saturated"]
        assert trial.data()["errors"] == 1


async def test_a_policy_is_tried(folder: Path) -> None:
    async with recorded(folder) as app:
        trial = await tried(app, PolicyDefinition(policy={"stages": ["default"]}, status="draft"))
        assert [(each.before, each.after, each.wrong) for each in trial.found.flips] == [("parcels", "desk", 1)]
        assert trial.own.decisions == 0


async def test_what_does_not_fit_is_refused(folder: Path) -> None:
    async with recorded(folder) as app:
        for wrong in (draft(parent="nobody"), Definition(name="desk", enabled=False), PolicyDefinition(policy="nonsense")):
            with pytest.raises(DefinitionInvalid):
                await tried(app, wrong)


async def test_a_trial_does_not_touch_what_serves(folder: Path) -> None:
    """Its fit, its vectors and its end are its own."""
    async with recorded(folder) as app:
        author = Author("test", SystemIssuer().now())
        assert app.editor is not None
        await app.editor.put([Definition(name="parcels", examples=("a crate by ship",))], {}, author)
        await app.serve_definitions()
        await app.runner.cascade.prepare()
        before = (await app.runner.select("hello")).fingerprint
        await tried(app, draft(examples=("a letter for my aunt",)))
        assert (await app.runner.select("hello")).fingerprint == before
        await app.editor.put([Definition(name="parcels", examples=("where is my box",))], {("agent", "parcels"): 1}, author)
        await app.serve_definitions()
        await app.runner.cascade.prepare()
        assert (await app.runner.select("where is my box")).agent == "parcels"


@asynccontextmanager
async def served(app: App) -> AsyncIterator[Served]:
    front = front_for(app.runner, GatewayConfig(auth=AuthConfig()), editor=app.editor)
    front.ready.set()
    async with serving(front) as gateway, Served(gateway.address, front) as client:
        yield client


async def test_by_the_api(folder: Path) -> None:
    async with recorded(folder) as app, served(app) as client:
        admin = await key_for(app.runner, role="admin", user="adam")
        operator = await key_for(app.runner, role="operator", user="otto")
        blind = await key_for(app.runner, role="operator", user="olga", scopes=["definitions:read", "decisions:read"])
        url = "/api/v1/agents/parcels"
        body = {"status": "draft", "patterns": [{"regex": "letter"}]}
        assert (await client.put(url, json=body, headers={**admin, "If-Match": '"0"'})).status_code == 200
        found = await client.post(f"{url}/try", json={}, headers=operator)
        assert found.status_code == 200
        trial = found.json()
        assert (trial["name"], trial["version"], trial["fitted"], trial["changed"]) == ("parcels", 1, True, 3)
        assert trial["flips"][0] | {"examples": []} == {
            "before": "desk",
            "after": "parcels",
            "count": 2,
            "right": 1,
            "wrong": 1,
            "examples": [],
        }
        labelled = await client.post(f"{url}/try", json={"version": 1, "labelled": True, "limit": 2}, headers=operator)
        assert labelled.json()["decisions"] == 2
        assert (await client.post(f"{url}/try", json={}, headers=blind)).status_code == 403
        assert (await client.post(f"{url}/try", json={"version": 7}, headers=operator)).status_code == 404
        assert (await client.post(f"{url}/try", json={"limit": 10**6}, headers=operator)).status_code == 422
        assert (await client.post("/api/v1/policies/main/try", json={}, headers=operator)).status_code == 404
        policy = {"status": "draft", "policy": {"stages": ["default"]}}
        await client.put("/api/v1/policies/main", json=policy, headers={**admin, "If-Match": '"0"'})
        found = await client.post("/api/v1/policies/main/try", json={}, headers=operator)
        assert [(each["before"], each["after"]) for each in found.json()["flips"]] == [("parcels", "desk")]


async def test_activating_within_bounds_by_the_api(folder: Path) -> None:
    """F5: a figure that misses its bound refuses the change; nothing is stored."""
    async with recorded(folder) as app, served(app) as client:
        admin = {**await key_for(app.runner, role="admin", user="adam"), "If-Match": '"1"'}
        blind = await key_for(app.runner, role="admin", user="olga", scopes=["definitions:read", "definitions:write"])
        url = "/api/v1/agents/parcels"
        body = {"status": "draft", "patterns": [{"regex": "letter"}]}
        assert (await client.put(url, json=body, headers={**admin, "If-Match": '"0"'})).status_code == 200

        async def activate(headers: dict[str, str] = admin, **bounds: object) -> httpx.Response:
            return await client.post(f"{url}/activate", json={"version": 1, **bounds}, headers=headers)

        refused = await activate(max={"changed": 2, "changed_share": 0.1}, min={"gain": 0})
        assert (refused.status_code, refused.json()["code"]) == (409, "definition.out_of_bounds")
        assert "changed is 3, it should be at most 2." in refused.json()["title"]
        unknown = await activate(min={"speed": 1})
        assert (unknown.status_code, unknown.json()["where"]) == (422, ["body", "min", "speed"])
        for nonsense in ({"gain": "high"}, {"gain": None}, {"x" * 100: 1}, [1]):
            assert (await activate(min=nonsense)).status_code == 422
        assert (await activate({**blind, "If-Match": '"1"'}, min={"gain": 0})).status_code == 403
        assert (await activate({**admin, "If-Match": '"7"'}, max={"changed": 9})).status_code == 412
        assert len((await client.get(f"{url}/versions", headers=admin)).json()["definitions"]) == 1
        accepted = await activate(max={"changed": 3, "errors": 0}, limit=100)
        assert (accepted.status_code, accepted.json()["status"]) == (200, "active")
        policy = {"status": "draft", "policy": {"stages": ["default"]}}
        await client.put("/api/v1/policies/main", json=policy, headers={**admin, "If-Match": '"0"'})
        at = "/api/v1/policies/main/activate"
        refused = await client.post(at, json={"version": 1, "max": {"changed": 0}}, headers=admin)
        assert refused.json()["code"] == "definition.out_of_bounds"
        assert (await client.post(at, json={"version": 1}, headers=admin)).json()["version"] == 2
