"""The client and the definitions of agents and policies: versions, changes, trials, and what is refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from definition_play import serving_app

from turnwise.assemble import App
from turnwise.client import Client
from turnwise.errors import (
    AgentDefinitionError,
    DefinitionConflict,
    DefinitionInvalid,
    DefinitionMissing,
    DefinitionOutOfBounds,
    PatternError,
    RequestInvalid,
)


@asynccontextmanager
async def client_of(folder: Path) -> AsyncIterator[tuple[App, Client]]:
    async with (
        serving_app(folder) as (app, gateway, admin),
        Client(gateway.address, key=admin["Authorization"].removeprefix("Bearer ")) as client,
    ):
        yield app, client


async def test_a_definition_from_the_first_version_to_its_end(tmp_path: Path) -> None:
    """C11, F1, F6."""
    async with client_of(tmp_path) as (app, client):
        it = client.definitions
        first = await it.put("parcels", {"patterns": [{"regex": "package"}], "note": "They say package."}, expected=0)
        assert (first.version, first.status, first.note) == (1, "active", "They say package.")
        second = await it.patch("parcels", {"description": "Tracks parcels."}, expected=1)
        assert second.content["patterns"] == first.content["patterns"]
        assert [(each.path, each.before, each.after) for each in await it.diff("parcels", 1)] == [
            ("description", None, "Tracks parcels.")
        ]
        await it.add_example("parcels", "Where is it?", expected=2)
        fourth = await it.add_pattern("parcels", "box", expected=3, confidence=0.7)
        assert await it.get("parcels") == fourth
        assert (await it.get("parcels", 3)).content["examples"] == ["Where is it?"]
        draft = await it.patch("parcels", {"status": "draft", "tags": ["x"]}, expected=4)
        assert (await it.activate("parcels", draft.version, expected=5, note="Now.")).note == "Now."
        back = await it.rollback("parcels", 1, expected=6)
        assert back.content == first.content
        assert (await it.retire("parcels", expected=7)).status == "retired"
        assert [each.version async for each in it.versions("parcels")] == [8, 7, 6, 5, 4, 3, 2, 1]
        assert [(each.name, each.version) async for each in it.list()] == [("parcels", 8)]
        assert [each.after async for each in it.changes()] == [8, 7, 6, 5, 4, 3, 2, 1]
        await app.serve_definitions()
        assert (await app.runner.select("my parcel")).agent == "parcels"


async def test_a_policy(tmp_path: Path) -> None:
    async with client_of(tmp_path) as (_, client):
        it = client.policies
        await it.put("main", {"policy": {"stages": ["patterns"]}}, expected=0)
        await it.patch("main", {"policy": {"stages": ["default"]}, "status": "draft"}, expected=1)
        assert [(each.path, each.after) for each in await it.diff("main", 1, 2)] == [
            ("policy.stages", ["default"]),
            ("status", "draft"),
        ]
        assert (await it.activate("main", 2, expected=2)).status == "active"
        assert (await it.rollback("main", expected=3)).content["policy"] == {"stages": ["patterns"]}
        await it.retire("main", expected=4)
        assert [each.status async for each in it.versions("main")] == ["retired", "active", "active", "draft", "active"]
        assert [each.name async for each in it.list()] == ["main"]


async def test_a_trial_and_its_bounds(tmp_path: Path) -> None:
    """F5."""
    async with client_of(tmp_path) as (_, client):
        answer = await client.send("s", "a letter for you")
        assert answer.selection is not None
        draft = await client.definitions.put("parcels", {"status": "draft", "patterns": [{"regex": "letter"}]}, expected=0)
        trial = await client.definitions.try_version("parcels", limit=10)
        assert (trial.version, trial.decisions, trial.changed) == (1, 1, 1)
        with pytest.raises(DefinitionOutOfBounds, match="changed is 1"):
            await client.definitions.activate("parcels", draft.version, expected=1, at_most={"changed": 0})
        with pytest.raises(RequestInvalid, match="no figure 'speed'"):
            await client.definitions.activate("parcels", draft.version, expected=1, at_least={"speed": 0})
        assert (await client.definitions.activate("parcels", 1, expected=1, at_most={"changed": 1})).version == 2


async def test_what_is_refused_is_raised_as_in_process(tmp_path: Path) -> None:
    async with client_of(tmp_path) as (_, client):
        it = client.definitions
        await it.put("parcels", {"tags": ["1"]}, expected=0)
        with pytest.raises(DefinitionConflict, match=r"has version 1, but version 7 was expected"):
            await it.patch("parcels", {"tags": ["2"]}, expected=7)
        with pytest.raises(DefinitionInvalid) as invalid:
            await it.put("parcels", {"patterns": [{"regex": "("}], "description": "x" * 20_001}, expected=1)
        assert [type(each) for each in invalid.value.problems] == [AgentDefinitionError, PatternError]
        for missing in (it.get("nobody"), it.get("parcels", 9), it.get("desk"), client.policies.get("other")):
            with pytest.raises(DefinitionMissing):
                await missing
