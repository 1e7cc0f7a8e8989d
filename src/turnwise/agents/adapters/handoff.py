"""A tool by which an agent of another library hands the conversation to another agent of ours."""

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.ports.context import AgentContext
from turnwise.tools.transfer import NAME, described

__all__ = ["NAME", "Target", "Targets"]


class Target(NamedTuple):
    """Who answers from now on. message: what that agent is to answer instead of the user's message."""

    agent: str
    message: str | None = None

    def kept(self) -> JsonValue:
        return {"agent": self.agent, "message": self.message}


class Targets:
    """The agents that may take over in this turn, and the one that was chosen. The hand-over itself comes after the answer
    is on record, so that a turn that is taken up again hands over without asking the library again.
    """

    def __init__(self, names: Sequence[str], description: str) -> None:
        self.names, self.description = tuple(names), description
        self.chosen: Target | None = None

    @classmethod
    def of(cls, context: AgentContext) -> "Targets | None":
        """Those of this turn; None when there is nobody."""
        names = context.transfer_targets
        return cls(names, described(context)) if names else None

    def schema(self) -> dict[str, JsonValue]:
        """The tool's parameters as a JSON schema."""
        agent: JsonValue = {"type": "string", "enum": list(self.names), "description": "Who is to answer."}
        told = "What they are to answer instead of the user's message. Leave it out as a rule."
        message: JsonValue = {"type": ["string", "null"], "description": told}
        return {"type": "object", "properties": {"agent": agent, "message": message}, "required": ["agent"]}

    def choose(self, agent: object, message: object = None) -> str | None:
        """Notes who takes over; what the model is told instead when that agent cannot. The first choice counts."""
        if agent not in self.names:
            return f"There is no agent {agent!r} that could take over. Choose one of: {', '.join(self.names)}."
        if self.chosen is not None:
            return f"{self.chosen.agent} takes over already."
        self.chosen = Target(str(agent), message if isinstance(message, str) and message else None)
        return None
