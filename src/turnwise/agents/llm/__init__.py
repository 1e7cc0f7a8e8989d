"""Agents that think with a model."""

from turnwise.agents.llm.agent import LlmAgent

__all__ = ["LlmAgent"]
