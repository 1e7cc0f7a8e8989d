"""What the tests of LLM agents share: runners over one file, closed at the end."""

from collections.abc import Iterator

import pytest
from llm_http import KEY, SERVICES, Wire
from runner_fixtures import process

__all__ = ["process", "wire"]


@pytest.fixture(params=["openai", "anthropic"])
def wire(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """A service of models in one format after the other. Whatever it was sent, it never had to refuse."""
    with SERVICES[request.param](key=KEY) as service:
        wire = Wire(request.param, service)
        for name, value in wire.environment.items():
            monkeypatch.setenv(name, value)
        yield wire
        assert service.refused == []
