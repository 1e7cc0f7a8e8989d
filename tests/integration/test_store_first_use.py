"""Many processes open a new database at the same time."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import first_use_process
import pytest

from turnwise import SqlSessionStore
from turnwise.testing.postgres import new_postgres_database

PROCESSES = int(os.environ.get("TURNWISE_PROCESSES", "12"))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_crowd_opens_a_new_database(tmp_path: Path, kind: str) -> None:
    """A33: one process makes the tables, the others wait for it; each answers its message."""
    url = f"sqlite:///{tmp_path}/new.db" if kind == "sqlite" else new_postgres_database()
    crowd = [await _start(url, f"s-{number}") for number in range(PROCESSES)]
    outcomes = await asyncio.gather(*(process.communicate(b"") for process in crowd))
    failed = [errors.decode()[-600:] for process, (_, errors) in zip(crowd, outcomes, strict=True) if process.returncode]
    assert failed == []
    assert [said.decode().strip() for said, _ in outcomes] == ["echo: hello"] * PROCESSES
    store = SqlSessionStore(url)
    assert len((await store.list("app", limit=100)).items) == PROCESSES
    await store.close()


async def _start(url: str, session: str) -> Process:
    command = (sys.executable, "-W", "error", first_use_process.__file__, url, session)
    return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
