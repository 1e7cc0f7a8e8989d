"""What a caller hands in: the message and what is known of who sends it."""

from pydantic import Field, JsonValue

from turnwise.facts.content import Content
from turnwise.facts.events import Guarded
from turnwise.facts.fact import Fact, optional
from turnwise.facts.limits import RunConfig


def _no_parameters() -> dict[str, JsonValue]:
    return {"type": "object", "properties": {}}


class OfferedTool(Fact):
    """A tool of the caller's own: whoever answers the message may call it, and the caller makes the calls and sends what they
    give. `parameters` is a JSON schema of an object.
    """

    name: str
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=_no_parameters)


class MessageContext(Fact):
    """What the caller knows beside the message; selectors may use it, agents may read it.

    direct_agent_id: bypass selection (behaviour C1). previous_agents: who helped before, newest last. channel and
    user_kind pick a policy's segment (C18). roles: the caller's roles, for agents that only some may reach (C20).
    attributes: anything else, such as a customer id. answers: the id of the open question that the message is the reply to,
    so that nobody else is chosen for it. tools: what the caller can do for whoever answers, for as long as it takes: those of
    the message that began an invocation count in all of it. state: keys of the state that are written with the message
    (behaviour A18); None removes one.
    """

    direct_agent_id: str | None = None
    previous_agents: tuple[str, ...] = ()
    channel: str | None = None
    user_kind: str | None = None
    roles: tuple[str, ...] = ()
    attributes: dict[str, JsonValue] = Field(default_factory=dict)
    answers: str | None = optional(None)
    tools: tuple[OfferedTool, ...] = optional(())
    state: dict[str, JsonValue] = optional({})


class Message(Fact):
    """One message as it was accepted. `id` is the caller's: the same id is the same message, and one answer.

    config: how it is to be run, whichever process does; None = as that process runs its messages. guarded: what guardrails
    changed in it before it was accepted; of one that was blocked, no content was. digest: of the request that brought it, so
    that another request under the same id can be told from it; empty = not known.
    """

    id: str
    content: Content
    context: MessageContext = MessageContext()
    config: RunConfig | None = None
    guarded: tuple[Guarded, ...] = optional(())
    digest: str = optional("")
