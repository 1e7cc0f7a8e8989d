"""What the runner's tests share: a runner over a real store, closed at the end."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from turnwise.ports.agent import Agent
from turnwise.runner import Runner
from turnwise.stores.sql import SqlSessionStore
from turnwise.testing.fakes import CountingIssuer

MakeRunner = Callable[..., Runner]


@pytest.fixture
def make_runner() -> Iterator[MakeRunner]:
    import asyncio

    runners: list[Runner] = []

    def make(root: Agent, **options: Any) -> Runner:
        options.setdefault("store", SqlSessionStore("sqlite://"))
        options.setdefault("issuer", CountingIssuer())
        runner = Runner(root, **options)
        runners.append(runner)
        return runner

    yield make

    async def close() -> None:
        for runner in runners:
            await runner.close()

    asyncio.run(close())


@pytest.fixture
def process(make_runner: MakeRunner, tmp_path: Path) -> MakeRunner:
    """Makes a runner with a connection of its own to the one file, as another process has."""

    def make(root: Agent, **options: Any) -> Runner:
        options.setdefault("store", SqlSessionStore(f"sqlite:///{tmp_path}/s.db"))
        return make_runner(root, issuer=None, **options)

    return make
