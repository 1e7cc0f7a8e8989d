"""Agents: functions, composites, teams, language models, and adapters for agents of other libraries."""

from typing import TYPE_CHECKING

from turnwise.facts.face import face

if TYPE_CHECKING:
    from turnwise.agents.adapters.a2a import A2aAgent as A2aAgent
    from turnwise.agents.adapters.google_adk import GoogleAdkAgent as GoogleAdkAgent
    from turnwise.agents.adapters.langgraph import LangGraphAgent as LangGraphAgent
    from turnwise.agents.adapters.openai_agents import OpenAiAgent as OpenAiAgent
    from turnwise.agents.adapters.pydantic_ai import PydanticAiAgent as PydanticAiAgent
    from turnwise.agents.composite import Loop as Loop, Parallel as Parallel, Sequential as Sequential, Team as Team
    from turnwise.agents.function import FunctionAgent as FunctionAgent, agent as agent, make_card as make_card
    from turnwise.agents.llm.agent import LlmAgent as LlmAgent
    from turnwise.agents.llm.memory import MemoryUse as MemoryUse
    from turnwise.facts.tree import (
        AgentCard as AgentCard,
        AgentTree as AgentTree,
        LearnedExample as LearnedExample,
        Pattern as Pattern,
        Skill as Skill,
    )
    from turnwise.ports.agent import Agent as Agent
    from turnwise.ports.context import AgentContext as AgentContext

__all__, __getattr__ = face(
    __name__,
    {
        "turnwise.agents.adapters.a2a": "A2aAgent",
        "turnwise.agents.adapters.google_adk": "GoogleAdkAgent",
        "turnwise.agents.adapters.langgraph": "LangGraphAgent",
        "turnwise.agents.adapters.openai_agents": "OpenAiAgent",
        "turnwise.agents.adapters.pydantic_ai": "PydanticAiAgent",
        "turnwise.agents.composite": "Loop Parallel Sequential Team",
        "turnwise.agents.function": "FunctionAgent agent make_card",
        "turnwise.agents.llm.agent": "LlmAgent",
        "turnwise.agents.llm.memory": "MemoryUse",
        "turnwise.facts.tree": "AgentCard AgentTree LearnedExample Pattern Skill",
        "turnwise.ports.agent": "Agent",
        "turnwise.ports.context": "AgentContext",
    },
)
