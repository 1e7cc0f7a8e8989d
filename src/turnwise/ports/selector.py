"""The protocol of a selector, which decides which agent should answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from turnwise.facts.content import Content
from turnwise.facts.events import Event
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Exclusion, NotedBy, Occasion, Verdict
from turnwise.facts.sessions import Head
from turnwise.facts.tree import AgentTree


@dataclass(frozen=True, slots=True)
class SelectionRequest:
    """The input of a decision. It contains only values.

    A `<next>` tag is removed from the answer's text. Its name is in `answer.actions.next`, and for the next message in
    `head.named_next`.
    """

    message: Content
    tree: AgentTree
    head: Head
    eligible: tuple[str, ...]
    """The agents that may be chosen, in the tree's order. For a team, only its members."""
    excluded: tuple[Exclusion, ...] = ()
    """The other agents, with the reason."""
    context: MessageContext = field(default_factory=MessageContext)
    occasion: Occasion = "message"
    """A user's message, an agent's answer (then `answer` is set), or a flow."""
    answer: Event | None = None
    positions: Mapping[str, int] = field(default_factory=dict)
    """The selectors' positions in fixed orders, by selector name; a missing position means 0."""
    verdicts: tuple[Verdict, ...] = ()
    """The verdicts of earlier selectors in this decision; all of them abstained."""
    tasks: Mapping[str, int] = field(default_factory=dict)
    """In a flow, the number of ready tasks of each eligible agent."""
    message_id: str | None = None
    """The caller's id of the message; None when none was sent, as for a preview."""
    noted: tuple[NotedBy, ...] = ()
    """The agents that noted the things which the message names, as the user's memory knows them. It gives no permission: an
    agent that is not in `eligible` cannot be chosen.
    """
    lead: str | None = None
    """For a team, the agent that works first and gets messages that name no agent; None means the tree's root."""

    @property
    def text(self) -> str:
        return self.message.text


class Selector(Protocol):
    """Decides which agent answers. Keeps no state per request: equal requests get equal verdicts in every process.

    A selector that may ask another service, such as a model, also has a method `asks(request) -> bool`. It returns
    whether `select` would do so, without asking. The message is then accepted first.
    """

    @property
    def name(self) -> str:
        """The selector's name in a policy, which is also its key in `positions`."""
        ...

    async def select(self, request: SelectionRequest) -> Verdict:
        """Chooses among `request.eligible`, abstains, or asks to clarify. Never raises for any user input."""
        ...
