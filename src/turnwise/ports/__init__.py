"""Protocols of agents, tools, models, selectors, stores, guardrails and hooks, which Turnwise or its users implement."""
