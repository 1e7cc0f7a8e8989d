"""Telemetry: metrics for Prometheus, traces for OpenTelemetry, structured log lines."""

from typing import TYPE_CHECKING

from turnwise.facts.face import face

if TYPE_CHECKING:
    from turnwise.ports.hooks import Hooks as Hooks, PieceHooks as PieceHooks
    from turnwise.telemetry.about import requested as requested
    from turnwise.telemetry.export import exporting as exporting
    from turnwise.telemetry.logs import logging_to as logging_to
    from turnwise.telemetry.metrics import Metrics as Metrics
    from turnwise.telemetry.spans import Spans as Spans

__all__, __getattr__ = face(
    __name__,
    {
        "turnwise.ports.hooks": "Hooks PieceHooks",
        "turnwise.telemetry.about": "requested",
        "turnwise.telemetry.export": "exporting",
        "turnwise.telemetry.logs": "logging_to",
        "turnwise.telemetry.metrics": "Metrics",
        "turnwise.telemetry.spans": "Spans",
    },
)
