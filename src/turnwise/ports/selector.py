"""What a selector is: it says who should answer, and why."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from turnwise.facts.content import Content
from turnwise.facts.events import Event
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Exclusion, Occasion, Verdict
from turnwise.facts.sessions import Head
from turnwise.facts.tree import AgentTree


class SelectionRequest(NamedTuple):
    """All that a decision may rest on: values only.

    occasion: a user's message, an agent's answer (then `answer` is that event), or a flow. A tag is out of the answer's text;
    the name in it is `answer.actions.next`, and for the next message `head.named_next`. eligible: the agents that may be
    chosen, in the tree's order (a team's members only, when a team asks); excluded: the others, and why. positions: the
    selectors' places in their orders, by selector's name, from the session's head; missing means 0. verdicts: what the
    selectors before said in this decision, all of them abstentions. tasks: in a flow, how many ready tasks each of the eligible
    has. message_id: the caller's id of the message; None when none was sent, as for a preview. lead: the agent that works
    first and takes what names nobody, when a team asks; None = the tree's root.
    """

    message: Content
    tree: AgentTree
    head: Head
    eligible: tuple[str, ...]
    excluded: tuple[Exclusion, ...] = ()
    context: MessageContext = MessageContext()
    occasion: Occasion = "message"
    answer: Event | None = None
    positions: Mapping[str, int] = {}
    verdicts: tuple[Verdict, ...] = ()
    tasks: Mapping[str, int] = {}
    message_id: str | None = None
    lead: str | None = None

    @property
    def text(self) -> str:
        return self.message.text


class Selector(Protocol):
    """Holds no per-request state: the same request gives the same verdict in every process.

    One that may ask somebody outside of this process, such as a model, has a method `asks(request) -> bool` besides, which
    says without asking whether it would: then the message is accepted first.
    """

    @property
    def name(self) -> str:
        """Its name in a policy; it keys its place in `positions`."""
        ...

    async def select(self, request: SelectionRequest) -> Verdict:
        """Chooses among `request.eligible`, abstains, or asks to clarify. Never raises for what a user may write."""
        ...
