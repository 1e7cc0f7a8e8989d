"""What the runner's tests share: a runner over a real store, closed at the end."""

from collections.abc import Callable, Iterator
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
