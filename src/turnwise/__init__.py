"""Turnwise: decides, for every message in a conversation with many agents, who should answer."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from turnwise.facts.face import face

if TYPE_CHECKING:
    from turnwise.agents.composite import Loop as Loop, Parallel as Parallel, Sequential as Sequential, Team as Team
    from turnwise.agents.function import agent as agent
    from turnwise.agents.llm.agent import LlmAgent as LlmAgent
    from turnwise.assemble import App as App, load_app as load_app
    from turnwise.facts.content import BlobPart as BlobPart, Content as Content, DataPart as DataPart, TextPart as TextPart
    from turnwise.facts.errors import TurnwiseError as TurnwiseError
    from turnwise.facts.events import Event as Event
    from turnwise.facts.limits import Limits as Limits, ProcessConfig as ProcessConfig, RunConfig as RunConfig
    from turnwise.facts.messages import MessageContext as MessageContext
    from turnwise.facts.selections import Selection as Selection, Verdict as Verdict
    from turnwise.facts.sessions import SessionKey as SessionKey
    from turnwise.facts.tree import AgentCard as AgentCard, Pattern as Pattern, Skill as Skill
    from turnwise.flows.flow import Flow as Flow, Task as Task
    from turnwise.ports.context import AgentContext as AgentContext
    from turnwise.runner.message.invocation import Invocation as Invocation, Result as Result
    from turnwise.runner.runner import Runner as Runner
    from turnwise.runner.sessions import InvocationStatus as InvocationStatus, PastExchange as PastExchange
    from turnwise.selection.policy import PolicySpec as PolicySpec
    from turnwise.stores.sql.store import SqlSessionStore as SqlSessionStore
    from turnwise.tools.function import tool as tool

__all__, _name_of = face(
    __name__,
    {
        "turnwise.agents.composite": "Loop Parallel Sequential Team",
        "turnwise.agents.function": "agent",
        "turnwise.agents.llm.agent": "LlmAgent",
        "turnwise.assemble": "App load_app",
        "turnwise.facts.tree": "AgentCard Pattern Skill",
        "turnwise.facts.content": "BlobPart Content DataPart TextPart",
        "turnwise.facts.errors": "TurnwiseError",
        "turnwise.facts.events": "Event",
        "turnwise.facts.limits": "Limits ProcessConfig RunConfig",
        "turnwise.facts.messages": "MessageContext",
        "turnwise.facts.selections": "Selection Verdict",
        "turnwise.facts.sessions": "SessionKey",
        "turnwise.flows.flow": "Flow Task",
        "turnwise.ports.context": "AgentContext",
        "turnwise.runner.message.invocation": "Invocation Result",
        "turnwise.runner.runner": "Runner",
        "turnwise.runner.sessions": "InvocationStatus PastExchange",
        "turnwise.selection.policy": "PolicySpec",
        "turnwise.stores.sql.store": "SqlSessionStore",
        "turnwise.tools.function": "tool",
    },
)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("turnwise")
    return _name_of(name)
