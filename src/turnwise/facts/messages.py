"""A caller's input: the message and its context."""

from pydantic import Field, JsonValue

from turnwise.facts.content import Content
from turnwise.facts.events import Guarded
from turnwise.facts.fact import Fact, optional
from turnwise.facts.limits import RunConfig


def _no_parameters() -> dict[str, JsonValue]:
    return {"type": "object", "properties": {}}


class OfferedTool(Fact):
    """A tool that the caller offers with a message. The answering agent may call it; the caller runs the calls and sends the
    results.
    """

    name: str
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=_no_parameters)
    """The JSON schema of an object."""


class MessageContext(Fact):
    """Facts that the caller sends with the message. Selectors may use them, and agents may read them."""

    direct_agent_id: str | None = None
    """Bypasses selection (behaviour C1)."""
    previous_agents: tuple[str, ...] = ()
    """The agents that helped before, newest last."""
    channel: str | None = None
    """Selects the policy's segment, with `user_kind` (C18)."""
    user_kind: str | None = None
    roles: tuple[str, ...] = ()
    """The caller's roles, for agents with restricted access (C20)."""
    attributes: dict[str, JsonValue] = Field(default_factory=dict)
    """Any other facts, such as a customer id."""
    answers: str | None = optional(None)
    """The id of the open question that the message answers, so that no other agent is selected."""
    tools: tuple[OfferedTool, ...] = optional(())
    """The tools that the caller offers. Those of the message that began an invocation apply to all of it."""
    state: dict[str, JsonValue] = optional({})
    """State keys to write with the message (behaviour A18). None removes a key."""


class Message(Fact):
    """One accepted message."""

    id: str
    """The caller's id: the same id is the same message, and gets one answer."""
    content: Content
    context: MessageContext = MessageContext()
    config: RunConfig | None = None
    """The run's configuration in any process; None means the default of the process that runs it."""
    guarded: tuple[Guarded, ...] = optional(())
    """The changes that guardrails made before the message was accepted. A blocked message is stored without content."""
    digest: str = optional("")
    """The digest of the request, to detect a different request under the same id; empty when unknown."""
    credential: str = optional("")
    """A digest of the id of the credential that sent the message; empty without one. It is not the credential."""
