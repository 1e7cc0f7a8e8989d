"""Guardrails: how they are called, and how their verdicts change messages, tool calls and answers."""
