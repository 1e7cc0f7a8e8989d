"""Export of traces and metrics to a collector, configured by OpenTelemetry's environment variables."""

import asyncio
import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from turnwise.facts.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

OTLP, CONSOLE, NONE = "otlp", "console", "none"
CLOSE_SECONDS = 5.0
"""Longest time for the last export, so that an unreachable collector does not hold up the end of the process."""
_PROTOCOL = "http/protobuf"
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class Exporters:
    """The providers of traces and metrics, until they are closed."""

    def __init__(self, tracers: "TracerProvider", meters: "MeterProvider") -> None:
        self.tracers, self.meters = tracers, meters
        self._closing: threading.Thread | None = None

    def install(self) -> None:
        """Makes these the global OpenTelemetry providers, so that libraries export through them too. A provider that is already
        set stays.
        """
        from opentelemetry import metrics, trace

        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace.set_tracer_provider(self.tracers)
            metrics.set_meter_provider(self.meters)

    async def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Exports what is left, for at most `seconds`. Idempotent."""
        if self._closing is None:
            # A daemon thread, because it waits for the network and cannot be stopped.
            self._closing = threading.Thread(target=self._shut_down, name="turnwise-telemetry", daemon=True)
            self._closing.start()
        await asyncio.to_thread(self._closing.join, seconds)

    def _shut_down(self) -> None:
        self.tracers.shutdown()
        self.meters.shutdown()


def exporters_from_environment() -> Exporters | None:
    """Creates exporters as the OTEL_… environment variables say.

    OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER are `otlp`, `console` or `none`. Unset, they mean `otlp` if an OTLP endpoint
    is set. OTLP goes over HTTP. OpenTelemetry itself reads everything else (endpoints, headers, sampling, batches, service
    name).

    Returns:
        The exporters, or None when the environment asks for none.

    Raises:
        ConfigError: A variable has a value that cannot be used.
        MissingExtra: The extra `otel` is not installed.
    """
    trace_names, metric_names = exporter_names("TRACES", os.environ), exporter_names("METRICS", os.environ)
    if not trace_names and not metric_names:
        return None
    try:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        span_exporters = [_span_exporter(name) for name in trace_names]
        readers = [PeriodicExportingMetricReader(_metric_exporter(name)) for name in metric_names]
        resource = _resource()
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        for exporter in span_exporters:
            tracers.add_span_processor(BatchSpanProcessor(exporter))
        return Exporters(tracers, MeterProvider(readers, resource, shutdown_on_exit=False))
    except ImportError:
        raise MissingExtra("Exporting traces", "otel") from None
    except ValueError as error:
        # The error's text is not shown: it may quote a header, and with it a key.
        problem = f"The OTEL_… variables of the environment cannot be used: {type(error).__name__}."
        raise ConfigError(problem, fix="Check them, numbers above all.") from None


def exporter_names(signal: str, environment: Mapping[str, str]) -> Sequence[str]:
    """Returns the exporters that the environment names for a signal (`TRACES` or `METRICS`). ConfigError for an unknown one."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    variable = f"OTEL_{signal}_EXPORTER"
    endpoint = environment.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or environment.get(_ENDPOINT)
    configured = environment.get(variable, "").strip() or (OTLP if endpoint else NONE)
    names = [name.strip() for name in configured.split(",")]
    unknown = [name for name in names if name not in (OTLP, CONSOLE, NONE)]
    if unknown:
        raise ConfigError(f"{variable} is {unknown[0][:64]!r}.", fix=f"Use {OTLP}, {CONSOLE} or {NONE}.")
    if OTLP in names:
        _check_protocol(signal, environment)
    return tuple(name for name in names if name != NONE)


def _check_protocol(signal: str, environment: Mapping[str, str]) -> None:
    """Raises ConfigError for another protocol than ours in the signal's environment variables."""
    for variable in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = environment.get(variable, "").strip()
        if protocol == _PROTOCOL:
            return
        if protocol:
            raise ConfigError(
                f"{variable} is {protocol[:64]!r}.", fix=f"Use {_PROTOCOL}; collectors listen on port 4318 for it."
            )


def _resource() -> "Resource":
    """Returns the resource of the environment, named `turnwise` unless it has a name."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource

    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        return resource.merge(Resource({SERVICE_NAME: "turnwise"}))
    return resource


def _span_exporter(name: str) -> "SpanExporter":
    """Returns the exporter of traces: to the console, or to a collector."""
    if name == CONSOLE:
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _metric_exporter(name: str) -> "MetricExporter":
    """Returns the exporter of metrics: to the console, or to a collector."""
    if name == CONSOLE:
        from opentelemetry.sdk.metrics.export import ConsoleMetricExporter

        return ConsoleMetricExporter()
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter()
