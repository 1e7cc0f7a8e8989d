"""A SQLite file under pressure: locked by another program, or on a disk that is full."""

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url
from store_play import KEY, insist, keys, locked, put, until_stable

from turnwise.facts.errors import StoreFull, StoreUnavailable
from turnwise.stores.sql import SqlSessionStore
from turnwise.stores.sql.sqlite import SqliteExecutor
from turnwise.testing.session_store_cases.making import at_once, check_fold, lost, said


async def test_a_lock_that_another_program_holds_for_long_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    executor = SqliteExecutor(make_url(f"sqlite:///{path}"))
    await executor.write(put("a"))
    with locked(path) as other:
        names = [f"{number:02}" for number in range(20)]
        tasks = [asyncio.create_task(executor.write(put(name))) for name in names]
        await asyncio.sleep(1.3)
        assert not any(task.done() for task in tasks)
        assert await executor.read(keys) == ["a"], "readers do not wait"
        other.execute("COMMIT")
        assert await asyncio.gather(*tasks) == names
    await executor.close()


async def test_a_lock_that_stays_is_an_error_and_nothing_runs_later(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    executor = SqliteExecutor(make_url(f"sqlite:///{path}"), patience=0.3)
    await insist(lambda: executor.write(put("a")))
    with locked(path):
        tasks = [asyncio.create_task(executor.write(put(f"lost-{number}"))) for number in range(5)]
        # These wait behind those, which SQLite keeps waiting.
        await asyncio.sleep(0.1)
        tasks += [asyncio.create_task(executor.write(put(f"late-{number}"))) for number in range(5)]
        results = await at_once(tasks)
    assert [type(error) for error in results] == [StoreUnavailable] * 10
    for error in results:
        assert f"{path} is locked by another program (SQLITE_BUSY). It stayed so for 0.3 seconds." in str(error)
    assert await insist(lambda: executor.write(put("b"))) == "b"
    assert await until_stable(lambda: executor.read(keys)) == ["a", "b"]
    await executor.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """Takes all the room there is."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096) == 4096:
            pass


async def test_a_disk_that_is_full_and_gets_room_again(small_disk: Path) -> None:
    store = SqlSessionStore(f"sqlite:///{small_disk}/x.db")
    sessions = [await store.create(KEY._replace(id=str(number))) for number in range(8)]
    (small_disk / "ballast").write_bytes(b"x" * 3_000_000)
    big = "x" * 2_000_000
    for _ in range(2):
        results = await at_once(
            store.append(session, [said("help", big if number % 2 else "small")]) for number, session in enumerate(sessions)
        )
        assert [type(result) for result in results[1::2]] == [StoreFull] * 4
        assert lost(results[::2]) == [], "those that fit are not held up by those that do not"
        for number, result in enumerate(results):
            stored = await check_fold(store, sessions[number].key)
            assert stored == (sessions[number] if isinstance(result, BaseException) else result)
            sessions[number] = stored
    fill(small_disk / "more")
    with pytest.raises(StoreFull):
        await store.append(sessions[0], [said("help", "x" * 1_500_000)])
    assert await check_fold(store, sessions[0].key) == sessions[0]
    (small_disk / "ballast").unlink()
    (small_disk / "more").unlink()
    session = await store.append(sessions[0], [said("help", "x" * 1_500_000)])
    assert await check_fold(store, session.key) == session
    await store.close()
    again = SqlSessionStore(f"sqlite:///{small_disk}/x.db")
    assert await check_fold(again, session.key) == session
    await again.close()


async def test_a_database_that_is_opened_on_a_full_disk(small_disk: Path) -> None:
    """SQLite calls some of this an error of input and output."""
    for number in range(2):
        store = SqlSessionStore(f"sqlite:///{small_disk}/x.db")
        fill(small_disk / "ballast")
        for _ in range(2):
            with pytest.raises(StoreFull, match=r"x\.db is full\. Free some space"):
                await store.create(KEY._replace(id=str(number)))
        (small_disk / "ballast").unlink()
        await store.create(KEY._replace(id=str(number)))
        await store.close()
