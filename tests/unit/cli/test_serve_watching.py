"""What watches an app that is served."""

import subprocess
import sys

import pytest
from opentelemetry import trace

from turnwise import Runner, SqlSessionStore, agent
from turnwise.cli.serve_output import build_telemetry
from turnwise.facts.errors import ConfigError
from turnwise.telemetry.metrics import Metrics

VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_SDK_DISABLED")


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


async def test_numbers_are_always_there() -> None:
    @agent
    def echo(message: str) -> str:
        return message

    watched = build_telemetry()
    runner = Runner(echo, store=SqlSessionStore("sqlite://"), hooks=watched.hooks)
    watched.attach(runner)
    await (await runner.start("hi", user="ann", session="s")).result()
    await runner.close()
    await watched.close()
    assert [type(hook) for hook in watched.hooks] == [Metrics]
    assert not watched.traced
    assert b'turnwise_invocations_total{end="completed"} 1.0' in (await watched.metrics.render())[0]


TRACED = """
import asyncio
from turnwise.cli.serve_output import build_telemetry
watched = build_telemetry()
print(watched.traced, [type(hook).__name__ for hook in watched.hooks])
asyncio.run(watched.close())
asyncio.run(watched.close())
"""


@pytest.mark.parametrize(
    ("exporter", "before", "said"),
    [
        ("console", "", "True ['Metrics', 'Spans']"),
        ("none", "", "False ['Metrics']"),
        # As where the extra is not installed.
        ("console", "import sys; sys.modules['opentelemetry.sdk.trace'] = None\n", "False ['Metrics']"),
    ],
)
def test_traces_where_the_environment_asks_for_them(exporter: str, before: str, said: str) -> None:
    """In a process of its own, as OpenTelemetry is set up once for all of it."""
    environment = {"OTEL_TRACES_EXPORTER": exporter, "OTEL_METRICS_EXPORTER": "none"}
    done = subprocess.run(
        [sys.executable, "-c", before + TRACED], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[0] == said
    assert ("no traces" in done.stderr) == bool(before)
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def test_what_the_environment_says_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "carrier-pigeon")
    with pytest.raises(ConfigError, match="carrier-pigeon"):
        build_telemetry()
