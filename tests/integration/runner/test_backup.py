"""Backups of the stores while messages run, and their restoration."""

import asyncio
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from turnwise import AgentContext, Runner, agent
from turnwise.facts.errors import ConfigError, StoreCorrupt
from turnwise.runner.backup import StoreBackup
from turnwise.stores.artifacts.local import InMemoryArtifactStore, OnDiskArtifactStore
from turnwise.stores.sql import SqlSessionStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@agent(description="Keeps what it is told.")
async def desk(message: str, context: AgentContext) -> str:
    await context.artifacts.save("note.txt", message.encode())
    context.state["said"] = message
    return f"You said {message}"


def runner_in(folder: Path) -> Runner:
    store = SqlSessionStore(f"sqlite:///{folder}/sessions.db")
    return Runner(desk, app="app", store=store, artifacts=OnDiskArtifactStore(folder / "artifacts"))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def backup_of(runner: Runner) -> StoreBackup:
    return StoreBackup(runner.store, runner.artifacts)


async def say(runner: Runner, text: str, session: str) -> None:
    result = await (await runner.start(text, user="ann", session=session)).result()
    assert result.text == f"You said {text}"


async def test_a_backup_while_messages_run_is_restored_and_goes_on(tmp_path: Path) -> None:
    """A24: each session in it ends with a whole message, and the artifacts of its answers are there."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    old, archive = runner_in(tmp_path / "old"), tmp_path / "backup.zip"
    started, stop = asyncio.Event(), asyncio.Event()

    async def chat(session: str) -> int:
        number = 0
        while not stop.is_set():
            number += 1
            await say(old, f"{number}", session)
            started.set()
        return number

    await say(old, "first", "before")
    talks = [asyncio.create_task(chat(f"s-{number}")) for number in range(3)]
    await asyncio.wait_for(started.wait(), 60)
    await asyncio.to_thread(backup_of(old).save, archive, NOW)
    stop.set()
    assert min(await asyncio.gather(*talks)) > 0, "nobody's message failed meanwhile"
    await old.close()
    assert names_in(tmp_path) == ["backup.zip", "new", "old"]

    new = runner_in(tmp_path / "new")
    await asyncio.to_thread(backup_of(new).restore, archive)
    assert names_in(tmp_path / "new") == ["artifacts", "sessions.db"]
    assert new.artifacts is not None
    for info in (await new.store.list("app", user="ann")).items:
        session = await new.sessions.get(info.key)
        if "said" in session.state:
            notes = await new.artifacts.versions(info.key, "note.txt")
            texts = [(await new.artifacts.load(info.key, "note.txt", version=each.version)).data for each in notes]  # type: ignore[union-attr]
            assert str(session.state["said"]).encode() in texts
        await say(new, "after", info.key.id)
    assert [event.text for event in await new.store.events(new.key("ann", "before"))][-1] == "You said after"
    await new.close()


async def test_a_restore_overwrites_nothing(tmp_path: Path) -> None:
    runner, archive = runner_in(tmp_path), tmp_path / "backup.zip"
    await say(runner, "hi", "s")
    backup_of(runner).save(archive, NOW)
    with pytest.raises(ConfigError, match="overwrites nothing"):
        backup_of(runner).save(archive, NOW)
    with pytest.raises(ConfigError, match="overwrites nothing"):
        backup_of(runner).restore(archive)
    await runner.close()
    for name in ("sessions.db", "sessions.db-wal", "sessions.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(ConfigError, match="is not empty"):
        backup_of(runner).restore(archive)
    assert not (tmp_path / "sessions.db").exists()


@pytest.mark.parametrize("spoiled", ["cut", "outside", "other", "database"])
async def test_a_spoiled_archive_restores_nothing(tmp_path: Path, spoiled: str) -> None:
    (tmp_path / "new").mkdir()
    runner, archive = runner_in(tmp_path), tmp_path / "backup.zip"
    await say(runner, "hi", "s")
    backup_of(runner).save(archive, NOW)
    await runner.close()
    with zipfile.ZipFile(archive) as whole:
        files = {name: whole.read(name) for name in whole.namelist()}
    if spoiled == "cut":
        archive.write_bytes(archive.read_bytes()[:-100])
    else:
        changed = {
            "outside": {"artifacts/../../x": b""},
            "other": {"backup.json": b"[]"},
            "database": {"sessions.db": b"no" * 999},
        }
        with zipfile.ZipFile(archive, "w") as archived:
            for name, data in (files | changed[spoiled]).items():
                archived.writestr(name, data)
    new = runner_in(tmp_path / "new")
    with pytest.raises(StoreCorrupt if spoiled == "database" else ConfigError):
        backup_of(new).restore(archive)
    assert not (tmp_path / "new" / "sessions.db").exists()
    assert not (tmp_path / "x").exists()
    await new.close()


async def test_what_is_not_a_file_is_said(tmp_path: Path) -> None:
    elsewhere = Runner(desk, store=SqlSessionStore("sqlite://"), artifacts=InMemoryArtifactStore())
    made = backup_of(elsewhere)
    assert made.leaves_out_artifacts
    with pytest.raises(ConfigError, match="in memory"):
        made.save(tmp_path / "x.zip", NOW)
    postgres = SqlSessionStore("postgresql://nobody@localhost/none")
    with pytest.raises(ConfigError, match="SQLite"):
        StoreBackup(postgres, None).save(tmp_path / "x.zip", NOW)
    assert names_in(tmp_path) == []
    await elsewhere.close()
    await postgres.close()
