"""A handoff tool for agents of other libraries: transfers the conversation to one of our agents."""

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.ports.context import AgentContext
from turnwise.tools.transfer import NAME, transfer_description

__all__ = ["NAME", "Target", "Targets"]


class Target(NamedTuple):
    """The agent that takes over."""

    agent: str
    message: str | None = None
    """The message that this agent answers instead of the user's; None means the user's message."""

    def to_json(self) -> JsonValue:
        """Returns the target as JSON, for the session state."""
        return {"agent": self.agent, "message": self.message}


class Targets:
    """The agents that may take over in this turn, and the one that was chosen.

    The transfer follows once the answer is recorded, so a resumed turn transfers without another run of the library.
    """

    def __init__(self, names: Sequence[str], description: str) -> None:
        self.names, self.description = tuple(names), description
        self.chosen: Target | None = None

    @classmethod
    def of(cls, context: AgentContext) -> "Targets | None":
        """Returns the targets of this turn, or None if there are none."""
        names = context.transfer_targets
        return cls(names, transfer_description(context)) if names else None

    def schema(self) -> dict[str, JsonValue]:
        """Returns the tool's parameters as a JSON schema."""
        agent: JsonValue = {"type": "string", "enum": list(self.names), "description": "Who is to answer."}
        about = "What they are to answer instead of the user's message. Leave it out as a rule."
        message: JsonValue = {"type": ["string", "null"], "description": about}
        return {"type": "object", "properties": {"agent": agent, "message": message}, "required": ["agent"]}

    def choose(self, agent: object, message: object = None) -> str | None:
        """Stores the agent that takes over. The first choice counts.

        Returns:
            None, or the error text for the model if that agent cannot take over.
        """
        if agent not in self.names:
            return f"There is no agent {agent!r} that could take over. Choose one of: {', '.join(self.names)}."
        if self.chosen is not None:
            return f"{self.chosen.agent} takes over already."
        self.chosen = Target(str(agent), message if isinstance(message, str) and message else None)
        return None
