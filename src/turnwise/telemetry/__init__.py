"""Observability: metrics, traces and log lines."""
