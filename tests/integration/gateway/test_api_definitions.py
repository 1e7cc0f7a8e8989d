"""The REST API of definitions: versions, preconditions, rights, audit, and what is refused."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from definition_play import serving_app
from gateway_play import key_for
from mcp_client_play import client_of
from runner_play import soon

from turnwise.testing.postgres import new_postgres_database

GREETER = {"made_by": {"kind": "reply", "templates": [{"text": ["Hello."]}]}}


async def test_from_the_first_version_to_the_way_back(tmp_path: Path) -> None:
    """C11, F1, F6: each change answers the new version and its ETag, and the next set of agents has it."""
    async with serving_app(tmp_path) as (app, client, admin):
        content = {"name": "parcels", "patterns": [{"regex": "package"}], "note": "They say package."}
        made = await client.post("/api/v1/agents", json=content, headers=admin)
        assert (made.status_code, made.headers["ETag"], made.headers["Location"]) == (201, '"1"', "/api/v1/agents/parcels")
        assert made.json()["author"].startswith("key:")
        assert made.json()["note"] == "They say package."
        await app.serve_definitions()
        assert (await app.runner.select("my package")).agent == "parcels"
        assert (await app.runner.select("my parcel")).agent == "desk"

        url = "/api/v1/agents/parcels"
        again = await client.post("/api/v1/agents", json=content, headers=admin)
        assert (again.status_code, again.json()["code"]) == (409, "definition.exists")
        changed = await client.patch(url, json={"enabled": False}, headers={**admin, "If-Match": '"1"'})
        assert (changed.status_code, changed.headers["ETag"]) == (200, '"2"')
        assert changed.json()["content"]["patterns"] == made.json()["content"]["patterns"]
        more = await client.post(f"{url}/examples", json={"text": "Where is it?"}, headers={**admin, "If-Match": '"2"'})
        assert more.json()["content"]["examples"] == ["Where is it?"]
        more = await client.post(f"{url}/patterns", json={"regex": "box"}, headers={**admin, "If-Match": '"3"'})
        assert [each["regex"] for each in more.json()["content"]["patterns"]] == ["package", "box"]
        back = await client.post(f"{url}/rollback", json={"version": 1}, headers={**admin, "If-Match": '"4"'})
        assert (back.json()["version"], back.json()["content"]) == (5, made.json()["content"])
        draft = await client.put(url, json={"status": "draft", "tags": ["x"]}, headers={**admin, "If-Match": '"5"'})
        assert draft.json()["status"] == "draft"
        active = await client.post(f"{url}/activate", json={"version": 6}, headers={**admin, "If-Match": '"6"'})
        assert (active.json()["version"], active.json()["status"]) == (7, "active")
        gone = await client.delete(url, headers={**admin, "If-Match": '"7"'})
        assert (gone.status_code, gone.json()["status"]) == (200, "retired")
        await app.serve_definitions()
        assert (await app.runner.select("my parcel")).agent == "parcels"
        versions = (await client.get(f"{url}/versions", headers=admin, params={"limit": 5})).json()
        assert [each["version"] for each in versions["definitions"]] == [8, 7, 6, 5, 4]
        assert versions["next"]
        assert (await client.get(f"{url}/versions/1", headers=admin)).json() == made.json()
        newest = (await client.get("/api/v1/definitions/agent", headers=admin)).json()["definitions"]
        assert [(each["name"], each["version"], each["status"]) for each in newest] == [("parcels", 8, "retired")]
        changes = (await client.get("/api/v1/definitions/changes", headers=admin)).json()["changes"]
        assert [(each["before"], each["after"]) for each in changes] == [(n, n + 1) for n in range(7, -1, -1)]
        assert changes[-2]["values"] == {"enabled": [None, False]}


async def test_a_write_says_which_version_it_changes(tmp_path: Path) -> None:
    """F1: without If-Match 428, with a stale one 412 with both versions; nothing is changed."""
    async with serving_app(tmp_path) as (_, client, admin):
        url = "/api/v1/agents/parcels"
        assert (await client.put(url, json={"tags": ["1"]}, headers={**admin, "If-Match": '"0"'})).status_code == 200
        assert (await client.put(url, json={"tags": ["2"]}, headers={**admin, "If-Match": '"1"'})).status_code == 200
        before = await client.get(f"{url}/versions", headers=admin)
        calls: list[tuple[str, str, Any]] = [
            ("PUT", url, {"tags": ["3"]}),
            ("PATCH", url, {"tags": ["3"]}),
            ("DELETE", url, None),
            ("POST", f"{url}/rollback", {}),
            ("POST", f"{url}/activate", {"version": 1}),
            ("POST", f"{url}/examples", {"text": "x"}),
            ("POST", f"{url}/patterns", {"regex": "x"}),
            ("PUT", "/api/v1/policies/main", {"policy": "default"}),
        ]
        for method, at, body in calls:
            missing = await client.request(method, at, json=body, headers=admin)
            assert (missing.status_code, missing.json()["code"]) == (428, "request.precondition_required"), (method, at)
            stale = await client.request(method, at, json=body, headers={**admin, "If-Match": '"7"'})
            assert (stale.status_code, stale.json()["code"]) == (412, "definition.conflict"), (method, at)
            assert "version 7 was expected" in stale.json()["title"]
        assert (await client.get(f"{url}/versions", headers=admin)).json() == before.json()
        any_version = await client.put(url, json={"tags": ["4"]}, headers={**admin, "If-Match": "*"})
        assert any_version.headers["ETag"] == '"3"'


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_of_two_writers_of_a_version_one_wins(tmp_path: Path, database: str) -> None:
    """F1: in two processes at the same moment; the other gets 412 with both versions, and can write on the new one."""
    store = new_postgres_database() if database == "postgresql" else f"sqlite:///{tmp_path}/shared.db"
    async with serving_app(tmp_path, store) as (_, one, admin), serving_app(tmp_path, store) as (_, two, other):
        url = "/api/v1/agents/parcels"
        assert (await one.put(url, json={"tags": ["0"]}, headers={**admin, "If-Match": '"0"'})).status_code == 200
        for version, (first, second) in enumerate(
            [("PUT", "PUT"), ("PATCH", "PUT"), ("PATCH", "PATCH"), ("DELETE", "PATCH")], 1
        ):
            match = {"If-Match": f'"{version}"'}
            a = one.request(first, url, json=None if first == "DELETE" else {"tags": ["a"]}, headers={**admin, **match})
            b = two.request(second, url, json={"tags": ["b"]}, headers={**other, **match})
            answers = await asyncio.gather(*((a, b) if version % 2 else (b, a)))
            won, lost = sorted(answers, key=lambda answer: answer.status_code)
            assert (won.status_code, won.json()["version"]) == (200, version + 1), won.text
            assert (lost.status_code, lost.json()["code"]) == (412, "definition.conflict"), lost.text
            assert f"has version {version + 1}, but version {version} was expected" in lost.json()["title"]
            now = await two.get(f"{url}/versions/{version + 1}", headers=other)
            assert now.json() == won.json()


async def test_operators_read_and_admins_write(tmp_path: Path) -> None:
    async with serving_app(tmp_path) as (app, client, admin):
        url = "/api/v1/agents/parcels"
        await client.put(url, json={"tags": ["1"]}, headers={**admin, "If-Match": '"0"'})
        operator = await key_for(app.runner, role="operator", user="olga")
        user = await key_for(app.runner, user="ann")
        for headers, reads in ((operator, 200), (user, 403)):
            assert (await client.get(f"{url}/versions", headers=headers)).status_code == reads
            assert (await client.get("/api/v1/definitions/changes", headers=headers)).status_code == reads
            write = await client.put(url, json={"tags": ["2"]}, headers={**headers, "If-Match": '"1"'})
            assert write.status_code == 403


async def test_a_policy_by_the_api(tmp_path: Path) -> None:
    """F1, F6."""
    async with serving_app(tmp_path) as (app, client, admin):
        url = "/api/v1/policies/main"
        assert (await client.get(url, headers=admin)).status_code == 404
        for number, stage in enumerate(("identity", "patterns")):
            put = await client.put(url, json={"policy": {"stages": [stage]}}, headers={**admin, "If-Match": f'"{number}"'})
            assert put.status_code == 200
        back = await client.post(f"{url}/rollback", json={}, headers={**admin, "If-Match": '"2"'})
        assert back.json()["content"]["policy"] == {"stages": ["identity"]}
        await app.serve_definitions()
        assert (await app.runner.select("my parcel")).agent == "desk"


@pytest.mark.parametrize(
    ("name", "body", "code"),
    [
        ("parcels", {"patterns": [{"regex": "(?=x)"}]}, "config.pattern"),
        ("parcels", {"made_by": {"use": "x"}}, "config.duplicate_agent"),
        ("parcels", {"parent": "parcels"}, "config.tree_cycle"),
        ("desk", {"enabled": False}, "config.tree"),
        ("new", {"made_by": {"kind": "llm", "model": "m", "tools": ["t"]}}, "config.agent"),
        ("new", {"made_by": {"use": "m"}}, "config.agent"),
        ("new", {"made_by": {"remote": "http://169.254.169.254/"}}, "request.invalid"),
        ("new", {"made_by": {"remote": "https://a.example/", "headers": {"X": "${HOME}"}}}, "config.agent"),
        ("parcels", {"description": "x" * 10_000_000}, "config.agent"),
        ("parcels", {"examples": ["x"] * 100_001}, "config.agent"),
        ("parcels", {"colour": "red"}, "config.agent"),
        ("parcels", {"made_by": {"kind": "reply", "templates": [{"text": ["x"], "when": {"a": 1}}]}}, "config.duplicate_agent"),
        ("new", {"made_by": {"kind": "reply", "templates": [{"text": ["x"], "when": {"a": 1}}]}}, "config.agent"),
        ("user", {}, "config.agent"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_bad_input_is_refused_and_changes_nothing(tmp_path: Path, name: str, body: Any, code: str) -> None:
    """F2, F3."""
    async with serving_app(tmp_path) as (app, client, admin):
        answer = await client.put(f"/api/v1/agents/{name}", json=body, headers={**admin, "If-Match": '"0"'})
        assert answer.status_code == 422, answer.text[:300]
        assert answer.json()["code"] == "definition.invalid"
        assert answer.json()["mistakes"][0]["code"] == code
        assert len(answer.text) < 2_000
        assert app.editor is not None
        assert await app.editor.store.revision("test") == 0


async def test_every_protocol_lists_the_agents_that_serve(tmp_path: Path) -> None:
    """F4: the A2A card, MCP's tools, the models and the agents are of one revision, also when they were read before."""
    async with serving_app(tmp_path) as (app, client, admin):

        async def listed() -> list[dict[str, str]]:
            card = (await client.get("/.well-known/agent-card.json")).json()
            models = (await client.get("/v1/models", headers=admin)).json()["data"]
            agents = (await client.get("/api/v1/agents", headers=admin)).json()["agents"]
            async with client_of(client.address, key=admin) as mcp:
                tools = (await mcp.list_tools()).tools
            return [
                {each["name"]: each["description"] for each in card["skills"]},
                {each["id"]: "" for each in models},
                {each["name"]: each["description"] for each in agents},
                {str(each.title): str(each.description) for each in tools},
            ]

        async def all_list(described: str | None) -> bool:
            card, models, agents, tools = await listed()
            names = ["greeter" in each for each in (card, models, agents, tools)]
            if described is None:
                return not any(names)
            return all(names) and all(described in each["greeter"] for each in (card, agents, tools))

        following = asyncio.create_task(app.follow_definitions())
        url, match = "/api/v1/agents/greeter", {**admin, "If-Match": "*"}
        assert await all_list(None)
        await client.put(url, json={**GREETER, "description": "Says hello."}, headers={**admin, "If-Match": '"0"'})
        await soon(until(lambda: all_list("Says hello.")))
        await client.patch(url, json={"description": "Says good day."}, headers=match)
        await soon(until(lambda: all_list("Says good day.")))
        await client.delete(url, headers=match)
        await soon(until(lambda: all_list(None)))
        following.cancel()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Waits until that holds."""
    while not await holds():  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def test_a_definition_of_a_newer_release_is_kept_and_said(tmp_path: Path) -> None:
    """F3: it does not serve, nobody overwrites its unknown fields, and a rollback goes past it."""
    from datetime import UTC, datetime

    from turnwise.ports.definitions import Author, Definition

    async with serving_app(tmp_path) as (app, client, admin):
        assert app.editor is not None
        url, author = "/api/v1/agents/parcels", Author("newer", datetime.now(UTC))
        await client.put(url, json={"tags": ["1"]}, headers={**admin, "If-Match": '"0"'})
        newer = Definition.model_validate_json('{"name": "parcels", "mood": "good", "patterns": [{"regex": "box"}]}')
        await app.editor.store.put("test", [newer], {("agent", "parcels"): 1}, author)
        shown = (await client.get(f"{url}/versions/2", headers=admin)).json()
        assert (shown["unknown_fields"], shown["content"]["mood"]) == (["mood"], "good")
        changed = await client.patch(url, json={"tags": ["2"]}, headers={**admin, "If-Match": '"2"'})
        assert (changed.status_code, "mood" in changed.json()["title"]) == (422, True)
        active = await client.post(f"{url}/activate", json={"version": 2}, headers={**admin, "If-Match": '"2"'})
        assert (active.status_code, active.json()["code"]) == (409, "definition.newer")
        await app.serve_definitions()
        assert (await app.runner.select("my parcel")).agent == "parcels", "as in code"
        back = await client.post(f"{url}/rollback", json={"version": 1}, headers={**admin, "If-Match": '"2"'})
        assert back.status_code == 200
