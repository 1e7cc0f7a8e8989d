import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from turnwise.facts.errors import ConfigError
from turnwise.telemetry.exporters import Exporters, exporter_names, exporters_from_environment


class Collector:
    """A collector on this machine: keeps what is sent to it, by path."""

    def __init__(self) -> None:
        self.sent: dict[str, list[bytes]] = {}
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.sent.setdefault(self.path, []).append(body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    opened = Collector()
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    return monkeypatch


def asked() -> Exporters:
    made = exporters_from_environment()
    assert made is not None
    return made


def test_nothing_is_exported_unasked() -> None:
    assert exporters_from_environment() is None


@pytest.mark.parametrize(
    ("given", "traces", "metrics"),
    [
        ({}, (), ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, ("otlp",), ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, ("otlp",), ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRICS_EXPORTER": "none"}, ("otlp",), ()),
        ({"OTEL_TRACES_EXPORTER": "console, otlp"}, ("console", "otlp"), ()),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "TRUE"}, (), ()),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, ("otlp",), ()),
    ],
)
def test_the_environment_says_what_is_exported(
    given: dict[str, str], traces: tuple[str, ...], metrics: tuple[str, ...]
) -> None:
    assert (exporter_names("TRACES", given), exporter_names("METRICS", given)) == (traces, metrics)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is 'zipkin'"),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'"),
    ],
)
def test_what_is_not_here_is_a_clear_error(given: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as error:
        exporter_names("TRACES", given)
    assert error.value.fix


def test_a_setting_that_opentelemetry_refuses_is_an_error_that_quotes_nothing(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("OTEL_TRACES_EXPORTER", "console")
    environment.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1")
    environment.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "7")
    with pytest.raises(ConfigError, match="OTEL_") as error:
        exporters_from_environment()
    assert "7" not in str(error.value)


async def test_what_is_left_is_sent_at_the_end(collector: Collector, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    made = asked()
    made.tracers.get_tracer("t").start_span("hello").end()
    made.meters.get_meter("t").create_counter("greetings").add(1)
    await made.close()
    await made.close()
    (traces,), (metrics,) = collector.sent["/v1/traces"], collector.sent["/v1/metrics"]
    resource = ExportTraceServiceRequest.FromString(traces).resource_spans[0]
    assert [span.name for scope in resource.scope_spans for span in scope.spans] == ["hello"]
    assert {a.key: a.value.string_value for a in resource.resource.attributes}["service.name"] == "turnwise"
    read = ExportMetricsServiceRequest.FromString(metrics).resource_metrics[0]
    assert [metric.name for scope in read.scope_metrics for metric in scope.metrics] == ["greetings"]


async def test_a_service_may_have_a_name_of_its_own(collector: Collector, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/here")
    environment.setenv("OTEL_SERVICE_NAME", "helpdesk")
    made = asked()
    made.tracers.get_tracer("t").start_span("hello").end()
    await made.close()
    (traces,) = collector.sent["/here"]
    attributes = ExportTraceServiceRequest.FromString(traces).resource_spans[0].resource.attributes
    assert {a.key: a.value.string_value for a in attributes}["service.name"] == "helpdesk"


async def test_a_collector_that_does_not_answer_holds_nobody_up(environment: pytest.MonkeyPatch) -> None:
    """It returns; the thread that still tries is a daemon."""
    environment.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:9/v1/traces")
    environment.setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1")
    made = asked()
    made.tracers.get_tracer("t").start_span("hello").end()
    await made.close(seconds=0.01)
    # Left alone, it would go on beside other tests: how long it pauses between tries is random, which Hypothesis notices.
    await made.close(seconds=30)
    assert "turnwise-telemetry" not in (thread.name for thread in threading.enumerate())


PROGRAM = """
import asyncio
from opentelemetry import trace
from turnwise.telemetry.exporters import exporters_from_environment
made = exporters_from_environment()
made.install()
trace.get_tracer("an agent's library").start_span("its own").end()
made.install()
asyncio.run(made.close())
"""


def test_what_agents_trace_themselves_goes_the_same_way(collector: Collector, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], check=True, timeout=60)
    (traces,) = collector.sent["/v1/traces"]
    resource = ExportTraceServiceRequest.FromString(traces).resource_spans[0]
    assert [span.name for scope in resource.scope_spans for span in scope.spans] == ["its own"]


def test_without_the_library_the_extra_is_named(environment: pytest.MonkeyPatch) -> None:
    program = """
import sys
sys.modules["opentelemetry.sdk.trace"] = None
from turnwise.facts.errors import MissingExtra
from turnwise.telemetry.exporters import exporters_from_environment
try:
    exporters_from_environment()
except MissingExtra as error:
    print(error.extra)
"""
    environment.setenv("OTEL_TRACES_EXPORTER", "console")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "otel"
