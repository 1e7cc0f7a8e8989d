"""What the tests of flows share: runners over one file, closed at the end."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from turnwise import Runner, SqlSessionStore
from turnwise.ports.agent import Agent


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., Runner]]:
    """Makes a runner with a connection of its own to the one file, as another process has."""
    runners: list[Runner] = []

    def make(root: Agent, **options: Any) -> Runner:
        options.setdefault("store", SqlSessionStore(f"sqlite:///{tmp_path}/s.db"))
        runners.append(Runner(root, **options))
        return runners[-1]

    yield make

    async def close() -> None:
        for runner in runners:
            await runner.close()

    asyncio.run(close())
