"""The archive of a user's data."""

import asyncio
import io
import json
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from turnwise import Runner, agent
from turnwise.facts.memory import new_entry
from turnwise.ports.decisions import Label
from turnwise.runner import user_export
from turnwise.runner.user_export import UserExport
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.stores.sql import SqlSessionStore
from turnwise.testing.postgres import new_postgres_database

MakeRunner = Callable[..., Runner]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@agent(description="Answers.")
def desk(message: str) -> str:
    return f"You said {message}"


def lines(archive: zipfile.ZipFile, name: str) -> list[Any]:
    return [json.loads(line) for line in archive.read(name).decode().splitlines()]


async def archive_of(runner: Runner, user: str) -> tuple[zipfile.ZipFile, int]:
    """Returns the archive and the size of its largest piece."""
    pieces = [piece async for piece in UserExport(runner.store, runner.artifacts, runner.app, user).chunks(NOW)]
    archive = zipfile.ZipFile(io.BytesIO(b"".join(pieces)))
    assert archive.testzip() is None
    return archive, max(map(len, pieces))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_an_archive_has_all_of_one_user(make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A44"""
    monkeypatch.setattr(user_export, "EVENTS", 2)
    monkeypatch.setattr(user_export, "ROWS", 2)
    store = SqlSessionStore("sqlite://" if kind == "sqlite" else new_postgres_database())
    runner = make_runner(desk, store=store, artifacts=InMemoryArtifactStore())
    for user, sessions in (("ann", ("a/../b", "two", "three")), ("bob", ("bob's",))):
        for session in sessions:
            for text in ("ä one", "two", "three"):
                await (await runner.start(f"{user} {text}", user=user, session=session)).result()
            key = runner.key(user, session)
            await runner.sessions.write_state(key, {"here": session, "user:name": user, "app:all": 1})
            for data in (b"first", b"second"):
                await runner.artifacts.save(key, "letters/notes", data)  # type: ignore[union-attr]
        likes = new_entry(id="likes", text=f"{user} likes tea", created_at=NOW)
        await runner.store.memory.remember("app", user, [likes])
        await runner.artifacts.save(key, "user:photo", user.encode(), mime_type="image/png")  # type: ignore[union-attr]
        await runner.store.labels.put(key, 1, Label(agent="desk", author="op", note=f"on {user}"), actor="op")  # type: ignore[attr-defined]
    archive, _ = await archive_of(runner, "ann")
    names = archive.namelist()
    assert not [name for name in names if ".." in name or name.startswith("/")]
    assert "bob" not in "".join(archive.read(name).decode() for name in names)
    (about,) = lines(archive, "export.json")
    assert (about["app"], about["user"], about["exported_at"]) == (runner.app, "ann", NOW.isoformat())
    assert lines(archive, "user_state.json") == [{"name": "ann"}]
    assert archive.read(lines(archive, "artifacts.jsonl")[0]["file"]) == b"ann"
    found = {}
    for number in (1, 2, 3):
        (session,) = lines(archive, f"sessions/{number:06}/session.json")
        assert session["state"] == {"here": session["id"]}
        events = lines(archive, f"sessions/{number:06}/events.jsonl")
        key = runner.key("ann", session["id"])
        assert [event["id"] for event in events] == [event.id for event in await runner.store.events(key, hidden=True)]
        decisions = lines(archive, f"sessions/{number:06}/decisions.jsonl")
        assert [decision["text"] for decision in decisions] == ["ann three", "ann two", "ann ä one"]
        files = lines(archive, f"sessions/{number:06}/artifacts.jsonl")
        assert [(each["name"], each["version"], archive.read(each["file"])) for each in files] == [
            ("letters/notes", 1, b"first"),
            ("letters/notes", 2, b"second"),
        ]
        found[session["id"]] = len(events)
    assert set(found) == {"a/../b", "two", "three"}
    assert [label["label"]["note"] for label in lines(archive, "labels.jsonl")] == ["on ann"]
    assert [entry["text"] for entry in lines(archive, "memories.jsonl")] == ["ann likes tea"]


async def test_nobody_has_an_archive_without_sessions(make_runner: MakeRunner) -> None:
    runner = make_runner(desk, store=SqlSessionStore("sqlite://"))
    archive, _ = await archive_of(runner, "nobody")
    assert archive.namelist() == ["export.json", "user_state.json", "memories.jsonl", "labels.jsonl"]
    assert lines(archive, "labels.jsonl") == []


async def test_the_pieces_stay_small_and_a_reader_may_leave(make_runner: MakeRunner) -> None:
    """The archive of 40 artifacts of half a megabyte is never whole in memory."""
    runner = make_runner(desk, store=SqlSessionStore("sqlite://"), artifacts=InMemoryArtifactStore())
    await (await runner.start("hi", user="ann", session="s")).result()
    for number in range(40):
        await runner.artifacts.save(runner.key("ann", "s"), f"n-{number}", bytes(range(256)) * 2048)  # type: ignore[union-attr]
    _, largest = await archive_of(runner, "ann")
    assert largest < 1024 * 1024
    leaving = UserExport(runner.store, runner.artifacts, runner.app, "ann").chunks(NOW)
    assert (await anext(leaving))[:2] == b"PK"
    await leaving.aclose()


async def test_a_session_that_is_deleted_meanwhile_is_left_out(make_runner: MakeRunner) -> None:
    runner = make_runner(desk, store=SqlSessionStore("sqlite://"))
    for session in ("a", "b"):
        await (await runner.start("hi", user="ann", session=session)).result()
    pieces, chunks = [], UserExport(runner.store, None, runner.app, "ann").chunks(NOW)
    pieces.append(await anext(chunks))
    await asyncio.gather(runner.sessions.delete(runner.key("ann", "b")), runner.sessions.delete(runner.key("ann", "a")))
    pieces += [piece async for piece in chunks]
    archive = zipfile.ZipFile(io.BytesIO(b"".join(pieces)))
    assert not [name for name in archive.namelist() if name.startswith("sessions/")]
