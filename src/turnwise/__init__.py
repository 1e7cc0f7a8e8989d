"""Turnwise: decides, for every message in a conversation with many agents, who should answer."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnwise.agents.composite import Loop, Parallel, Sequential
    from turnwise.agents.function import agent
    from turnwise.agents.llm import LlmAgent
    from turnwise.agents.team import Team
    from turnwise.assemble import load_app
    from turnwise.facts.cards import AgentCard, Pattern, Skill
    from turnwise.facts.content import BlobPart, Content, DataPart, TextPart
    from turnwise.facts.errors import TurnwiseError
    from turnwise.facts.events import Event
    from turnwise.facts.limits import Limits, ProcessConfig, RunConfig
    from turnwise.facts.messages import MessageContext
    from turnwise.facts.selections import Selection
    from turnwise.flows.flow import Flow
    from turnwise.flows.single import Task
    from turnwise.ports.context import AgentContext
    from turnwise.runner.message.invocation import Invocation, Result
    from turnwise.runner.runner import Runner
    from turnwise.selection.policy import PolicySpec
    from turnwise.stores.sql import SqlSessionStore
    from turnwise.tools.function import tool

_HOMES = {
    "AgentCard": "turnwise.facts.cards",
    "AgentContext": "turnwise.ports.context",
    "BlobPart": "turnwise.facts.content",
    "Content": "turnwise.facts.content",
    "DataPart": "turnwise.facts.content",
    "Event": "turnwise.facts.events",
    "Flow": "turnwise.flows.flow",
    "Invocation": "turnwise.runner.message.invocation",
    "Limits": "turnwise.facts.limits",
    "LlmAgent": "turnwise.agents.llm",
    "Loop": "turnwise.agents.composite",
    "MessageContext": "turnwise.facts.messages",
    "Parallel": "turnwise.agents.composite",
    "Pattern": "turnwise.facts.cards",
    "PolicySpec": "turnwise.selection.policy",
    "ProcessConfig": "turnwise.facts.limits",
    "Result": "turnwise.runner.message.invocation",
    "RunConfig": "turnwise.facts.limits",
    "Runner": "turnwise.runner.runner",
    "Selection": "turnwise.facts.selections",
    "Sequential": "turnwise.agents.composite",
    "Skill": "turnwise.facts.cards",
    "SqlSessionStore": "turnwise.stores.sql",
    "Task": "turnwise.flows.single",
    "Team": "turnwise.agents.team",
    "TextPart": "turnwise.facts.content",
    "TurnwiseError": "turnwise.facts.errors",
    "agent": "turnwise.agents.function",
    "load_app": "turnwise.assemble",
    "tool": "turnwise.tools.function",
}

__all__ = [
    "AgentCard",
    "AgentContext",
    "BlobPart",
    "Content",
    "DataPart",
    "Event",
    "Flow",
    "Invocation",
    "Limits",
    "LlmAgent",
    "Loop",
    "MessageContext",
    "Parallel",
    "Pattern",
    "PolicySpec",
    "ProcessConfig",
    "Result",
    "RunConfig",
    "Runner",
    "Selection",
    "Sequential",
    "Skill",
    "SqlSessionStore",
    "Task",
    "Team",
    "TextPart",
    "TurnwiseError",
    "agent",
    "load_app",
    "tool",
]


def __getattr__(name: str) -> Any:
    # Lazy imports: `import turnwise` loads nothing, and a name loads its module on first access.
    if name == "__version__":
        return import_module("importlib.metadata").version("turnwise")
    if name not in _HOMES:
        raise AttributeError(f"module 'turnwise' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
