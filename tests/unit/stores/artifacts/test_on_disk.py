"""on_disk: what the conformance suite does not say: what is in the folder, and what happens when the folder is bad."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from turnwise.facts.errors import StoreCorrupt, StoreUnavailable
from turnwise.facts.sessions import SessionKey
from turnwise.stores.artifacts.local import OnDiskArtifactStore

KEY = SessionKey("shop", "ann", "s1")


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_nothing_is_made_before_the_first_save(tmp_path: Path) -> None:
    store = OnDiskArtifactStore(tmp_path / "kept")
    assert asyncio.run(store.list(KEY)) == ()
    asyncio.run(store.delete_session(KEY))
    assert list(tmp_path.iterdir()) == []


async def test_another_opening_finds_what_was_saved(tmp_path: Path) -> None:
    info = await OnDiskArtifactStore(tmp_path).save(KEY, "user:a/b", b"x", mime_type="text/plain")
    assert await OnDiskArtifactStore(str(tmp_path)).load(KEY, "user:a/b") == (info, b"x")


async def test_the_bytes_lie_in_the_folder_as_they_are(tmp_path: Path) -> None:
    """A28"""
    store = OnDiskArtifactStore(tmp_path)
    await store.save(SessionKey("shop", "../ann", ""), "a/b", b"some bytes")
    place = "shop/%2E.%2Fann/sessions/%/a%2Fb/1"
    assert files(tmp_path) == {f"{place}/data", f"{place}/info.json"}
    assert tmp_path.joinpath(place, "data").read_bytes() == b"some bytes"


async def test_delete_leaves_nothing_behind(tmp_path: Path) -> None:
    store = OnDiskArtifactStore(tmp_path)
    for name in ("a", "a", "b", "user:c"):
        await store.save(KEY, name, b"x")
    await store.delete(KEY, "a")
    await store.delete_session(KEY)
    await store.delete_user(KEY.app, KEY.user)
    assert files(tmp_path) == set()


async def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    place = tmp_path / "kept"
    place.write_text("not a folder")
    with pytest.raises(StoreUnavailable, match="kept cannot be used"):
        await OnDiskArtifactStore(place).save(KEY, "a", b"x")
    with pytest.raises(StoreUnavailable, match="kept cannot be used"):
        await OnDiskArtifactStore(place).load(KEY, "a")


async def test_a_file_in_the_place_of_an_artifact_ends_in_an_error_not_in_a_loop(tmp_path: Path) -> None:
    await OnDiskArtifactStore(tmp_path).save(KEY, "a", b"x")
    tmp_path.joinpath("shop/ann/sessions/s1/b").write_text("in the way")
    with pytest.raises(StoreUnavailable):
        await OnDiskArtifactStore(tmp_path).save(KEY, "b", b"x")


async def test_damaged_information_is_named(tmp_path: Path) -> None:
    store = OnDiskArtifactStore(tmp_path)
    await store.save(KEY, "a", b"x")
    tmp_path.joinpath("shop/ann/sessions/s1/a/1/info.json").write_text("{")
    with pytest.raises(StoreCorrupt, match=r"info\.json is damaged"):
        await store.load(KEY, "a")


async def test_what_others_put_there_is_left_out(tmp_path: Path) -> None:
    store = OnDiskArtifactStore(tmp_path)
    info = await store.save(KEY, "a", b"x")
    tmp_path.joinpath("shop/ann/sessions/s1/a/notes.txt").write_text("mine")
    tmp_path.joinpath("shop/ann/sessions/s1/other").mkdir()
    assert await store.versions(KEY, "a") == (info,)
    assert await store.list(KEY) == (info,)


# A limit on the size of files is a full disk that needs no disk of its own.
_SAVE_WITHOUT_SPACE = """
import asyncio, resource, sys
from turnwise.facts.errors import StoreFull
from turnwise.facts.sessions import SessionKey
from turnwise.stores.artifacts.local import OnDiskArtifactStore
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    asyncio.run(OnDiskArtifactStore(sys.argv[1]).save(SessionKey("shop", "ann", "s1"), "a", b"x" * 100_000))
except StoreFull as error:
    print(error)
"""


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SAVE_WITHOUT_SPACE, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "no space left" in result.stdout
    assert files(tmp_path) == set()
