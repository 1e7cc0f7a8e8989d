"""LLM agents: a model answers and calls tools."""

from turnwise.agents.llm.agent import LlmAgent

__all__ = ["LlmAgent"]
