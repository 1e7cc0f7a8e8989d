"""What the tests of LLM agents share: runners over one file, closed at the end."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llm_http import KEY, SERVICES, Wire

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


@pytest.fixture(params=["openai", "anthropic"])
def wire(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """A service of models in one format after the other. Whatever it was sent, it never had to refuse."""
    with SERVICES[request.param](key=KEY) as service:
        wire = Wire(request.param, service)
        for name, value in wire.environment.items():
            monkeypatch.setenv(name, value)
        yield wire
        assert service.refused == []
