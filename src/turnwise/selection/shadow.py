"""Decides as a shadow: with another policy on the same facts, for comparison only (behaviour H6)."""

from dataclasses import dataclass

from turnwise.facts.content import Content
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import NotedBy, Selection
from turnwise.facts.sessions import Head
from turnwise.selection.cascade import Cascade


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowRequest:
    """The facts of a decision that the shadow decides on, too."""

    cascade: Cascade
    """The shadow's policy."""
    head: Head
    """The session's head before the message."""
    message: Content
    context: MessageContext
    noted: tuple[NotedBy, ...]
    resting: frozenset[str]
    message_id: str
    may_ask: bool
    """True if stages may ask a service outside of this process."""
    experiment: str | None = None
    arm: str | None = None
    """The arm of the experiment that the shadow stands for; None for the shadow of a policy."""


class AsksOutside(Exception):
    """The shadow would ask somebody outside of this process, and may not."""


async def decide_in_shadow(request: ShadowRequest) -> Selection:
    """Returns what the shadow's policy decides. Changes nothing.

    Raises:
        AsksOutside: A stage would ask somebody outside.
        NobodyEligible: No agent is eligible.
    """

    async def before_remote_call() -> None:
        if not request.may_ask:
            raise AsksOutside

    decided = await request.cascade.decide(
        head=request.head,
        message=request.message,
        context=request.context,
        noted=request.noted,
        resting=request.resting,
        message_id=request.message_id,
        before_remote_call=before_remote_call,
    )
    return decided.replace_valid(experiment=request.experiment, arm=request.arm)
