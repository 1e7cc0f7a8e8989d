"""Telemetry: metrics for Prometheus, traces for OpenTelemetry, structured log lines."""

from typing import TYPE_CHECKING

from turnwise.facts.face import face

if TYPE_CHECKING:
    from turnwise.ports.hooks import Hooks as Hooks, PieceHooks as PieceHooks
    from turnwise.telemetry.exporters import exporters_from_environment as exporters_from_environment
    from turnwise.telemetry.logs import logging_to as logging_to, request_context as request_context
    from turnwise.telemetry.metrics import Metrics as Metrics
    from turnwise.telemetry.traces import Spans as Spans

__all__, __getattr__ = face(
    __name__,
    {
        "turnwise.ports.hooks": "Hooks PieceHooks",
        "turnwise.telemetry.exporters": "exporters_from_environment",
        "turnwise.telemetry.logs": "logging_to request_context",
        "turnwise.telemetry.metrics": "Metrics",
        "turnwise.telemetry.traces": "Spans",
    },
)
