"""What watches an app that is served: numbers for Prometheus, and traces where OpenTelemetry's environment asks for them."""

import os
from typing import TYPE_CHECKING

from turnwise.facts.errors import MissingExtra

if TYPE_CHECKING:
    from turnwise.ports.hooks import Hooks
    from turnwise.runner import Runner
    from turnwise.telemetry.exporting import Exporting
    from turnwise.telemetry.metrics import Metrics
    from turnwise.telemetry.spans import Spans

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's variable for whether spans hold what was said."""


class Watching:
    """Hooks for a runner; to be closed after it."""

    def __init__(self, metrics: "Metrics", spans: "Spans | None" = None, exporting: "Exporting | None" = None) -> None:
        self.metrics = metrics
        self._spans, self._exporting = spans, exporting

    @property
    def hooks(self) -> list["Hooks"]:
        return [self.metrics] if self._spans is None else [self.metrics, self._spans]

    @property
    def traced(self) -> bool:
        return self._spans is not None

    def attach(self, runner: "Runner") -> None:
        """Tells whose numbers these are."""
        self.metrics.attach(runner)

    async def close(self) -> None:
        """Sends what is left. Idempotent."""
        if self._spans is not None:
            self._spans.close()
        if self._exporting is not None:
            await self._exporting.close()


def watching() -> Watching:
    """What the environment asks for. Without the extra `otel` it is told that there are no traces. ConfigError."""
    from turnwise.cli import terminal
    from turnwise.telemetry.exporting import exporting
    from turnwise.telemetry.metrics import Metrics

    metrics = Metrics()
    try:
        exported = exporting()
    except MissingExtra as missing:
        terminal.note(f"no traces: {missing}", style="yellow")
        return Watching(metrics)
    if exported is None:
        return Watching(metrics)
    from turnwise.telemetry.spans import Spans

    exported.install()
    content = os.environ.get(CONTENT, "").strip().lower() == "true"
    return Watching(metrics, Spans(tracers=exported.tracers, meters=exported.meters, content=content), exported)
