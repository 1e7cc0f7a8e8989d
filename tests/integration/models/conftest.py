"""What the tests of providers share: a strict service on this machine, in each format, and a model of it."""

from collections.abc import Iterator

import pytest
from llm_servers import FakeAnthropic, FakeOpenAI
from provider_play import KEY, Service

from turnwise.models.provider import ProviderModel


def at_endpoint(service: Service) -> ProviderModel:
    return ProviderModel("small", url=service.url, key=KEY)


def at_anthropic(service: Service) -> ProviderModel:
    return ProviderModel("anthropic:claude-sonnet-4-6")


@pytest.fixture(params=["openai", "anthropic"])
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with FakeOpenAI(key=KEY) if request.param == "openai" else FakeAnthropic(key=KEY) as service:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", service.url)
        yield service


@pytest.fixture
def model(service: Service) -> ProviderModel:
    return at_endpoint(service) if isinstance(service, FakeOpenAI) else at_anthropic(service)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
