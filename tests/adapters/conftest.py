"""What the tests of adapters share."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from turnwise import Runner, SqlSessionStore


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., Runner]]:
    """Makes a runner with a connection of its own to the one file, as another process has."""
    runners: list[Runner] = []

    def make(root: Any, **options: Any) -> Runner:
        runners.append(Runner(root, **({"store": SqlSessionStore(f"sqlite:///{tmp_path}/s.db")} | options)))
        return runners[-1]

    yield make

    async def close() -> None:
        for runner in runners:
            await runner.close()

    asyncio.run(close())
