"""Leases of real processes that block, stand still, die and come back (A33, E7)."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import lease_process as program
import pytest

from turnwise.facts.events import USER, Event
from turnwise.facts.limits import ProcessConfig
from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import SqlSessionStore
from turnwise.testing.postgres import new_postgres_database

KEY = SessionKey("app", program.USER, program.SESSION)
DEFAULT = ProcessConfig().lease_seconds
SHORT = 1.0
Start = Callable[..., Any]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/x.db" if request.param == "sqlite" else new_postgres_database()


@contextlib.asynccontextmanager
async def processes(url: str, folder: Path) -> AsyncIterator[Start]:
    """Gives a function that starts a process, and waits until it is ready. All are gone at the end."""
    running: list[asyncio.subprocess.Process] = []

    async def starts(name: str, message: str = "", *, seconds: float = DEFAULT) -> asyncio.subprocess.Process:
        running.append(await program.start(url, folder, name, seconds, message))
        assert await line_of(running[-1]) == "ready"
        return running[-1]

    try:
        yield starts
    finally:
        for process in running:
            if process.returncode is None:
                process.kill()
            await process.communicate()


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(90):
        return (await process.stdout.readline()).decode().strip()


async def until_tried(folder: Path, count: int = 1) -> None:
    async with asyncio.timeout(90):
        while len(program.tried(folder)) < count:  # noqa: ASYNC110 - a process writes it
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def reading(url: str) -> AsyncIterator[SqlSessionStore]:
    store = SqlSessionStore(url)
    yield store
    await store.close()


async def answered(url: str) -> list[Event]:
    """Returns the visible log once the message is answered."""
    async with reading(url) as store, asyncio.timeout(90):
        events = await store.events(KEY)
        while not any(event.actions.end for event in events):
            await asyncio.sleep(0.05)
            events = await store.events(KEY)
        return events


def said(events: list[Event]) -> list[str]:
    return [event.text for event in events if event.author != USER and event.text]


@pytest.mark.parametrize("message", ["hold the loop", "hold a thread"])
async def test_a_process_whose_agent_blocks_keeps_its_session(url: str, tmp_path: Path, message: str) -> None:
    """A33: for several times the timeout, beside a process that would take the session."""
    async with processes(url, tmp_path) as start:
        other = await start("two", seconds=SHORT)
        one = await start("one", message, seconds=SHORT)
        assert await line_of(one) == "answer of one"
        events = await answered(url)
        assert (program.tried(tmp_path), {event.attempt for event in events}) == (["one"], {1})
        assert other.returncode is None


async def test_a_process_that_stood_still_is_refused(url: str, tmp_path: Path) -> None:
    """A33: another one has answered meanwhile; its late answer is not stored, and its reader gets the one that counts."""
    async with processes(url, tmp_path) as start:
        one = await start("one", "wait", seconds=SHORT)
        await until_tried(tmp_path)
        await start("two", seconds=SHORT)
        one.send_signal(signal.SIGSTOP)
        assert said(await answered(url)) == ["answer of two"]
        (tmp_path / "go").touch()
        one.send_signal(signal.SIGCONT)
        assert await line_of(one) == "answer of two"
        assert program.tried(tmp_path) == ["one", "two"]
        async with reading(url) as store:
            assert [event.text for event in await store.events(KEY, hidden=True) if "of one" in event.text] == []


async def test_a_process_that_is_started_again_answers_what_was_left(url: str, tmp_path: Path) -> None:
    """E7: with the defaults, after kill -9 of the only process."""
    async with processes(url, tmp_path) as start:
        one = await start("one", "wait")
        await until_tried(tmp_path)
        one.kill()
        await one.wait()
        await start("two")
        events = await answered(url)
        assert (said(events), program.tried(tmp_path)) == (["answer of two"], ["one", "two"])
        assert max(event.attempt for event in events) == 2


async def test_of_two_processes_started_at_once_one_answers_what_was_left(url: str, tmp_path: Path) -> None:
    """E7, A33"""
    async with processes(url, tmp_path) as start:
        one = await start("one", "wait", seconds=SHORT)
        await until_tried(tmp_path)
        one.kill()
        await one.wait()
        await asyncio.gather(start("two", seconds=SHORT), start("three", seconds=SHORT))
        events = await answered(url)
        assert len(said(events)) == 1
        assert len(program.tried(tmp_path)) == 2
