"""Reads the active agent and the agents that may continue from the session's head. Pure."""

from collections.abc import Collection
from typing import NamedTuple

from turnwise.facts.selections import Exclusion
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.resume import why_not_resumed
from turnwise.selection.verdicts import shortened


class ConversationState(NamedTuple):
    """The agents' places in a conversation. Only eligible agents are listed."""

    active: str | None
    """The agent that has the conversation; None when there is none or it may not continue."""
    visited: tuple[str, ...]
    """Other agents that spoke and may continue, most recent first."""
    awaiting: str | None
    """The agent that waits for a reply."""
    passed_over: tuple[Exclusion, ...] = ()
    """The agent that had the conversation but may not continue, with the cause."""


def conversation_state(request: SelectionRequest) -> ConversationState:
    """Derives the conversation state from the session's head. The message does not matter."""
    head = request.head
    spoke = sorted(((mark.spoke, name) for name, mark in head.authors.items() if mark.spoke), reverse=True)
    last = head.active_agent
    # After a transfer, the receiver has the conversation unless it answered or failed since; the sender does not.
    handed = max(((mark.handed, name) for name, mark in head.authors.items() if mark.handed > mark.failed), default=None)
    if handed and handed[0] > (spoke[0][0] if spoke else 0) and handed[0] > head.authors[handed[1]].skipped:
        last = handed[1]
    waiting = _waiting(request)
    why_not = None if last is None or head.offered else _obstacle(last, request, waiting)
    active = None if last is None or head.offered or why_not else acting_agent(last, request)
    passed_over = () if why_not is None else (why_not,)
    visited = [_continuing(name, request, waiting) for _, name in spoke]
    others = tuple(dict.fromkeys(name for name in visited if name is not None and name != active))
    return ConversationState(active, others, next(iter(waiting), None), passed_over)


def acting_agent(name: str | None, request: SelectionRequest) -> str | None:
    """Returns the agent itself if eligible, else the nearest eligible composite above it, which runs it.

    None when neither exists.
    """
    if name is None or name not in request.tree:
        return None
    if name in request.eligible:
        return name
    above = request.tree.chain(name)[1:]
    return next((each for each in above if request.tree.card(each).is_composite and each in request.eligible), None)


def continuing_agent(name: str | None, request: SelectionRequest) -> str | None:
    """Returns the agent, or the composite that runs it, if it may continue the conversation.

    None otherwise: earlier messages then do not count in its favour.
    """
    return _continuing(name, request, _waiting(request))


def _continuing(name: str | None, request: SelectionRequest, waiting: Collection[str]) -> str | None:
    if name is None or _obstacle(name, request, waiting) is not None:
        return None
    return acting_agent(name, request)


def _waiting(request: SelectionRequest) -> tuple[str, ...]:
    """Returns the agents that wait for a reply, or the composites that run them, in the head's order."""
    acting = (acting_agent(agent, request) for _, agent, wait in request.head.waiting() if wait.kind == "reply")
    return tuple(dict.fromkeys(name for name in acting if name is not None))


def _obstacle(name: str, request: SelectionRequest, waiting: Collection[str]) -> Exclusion | None:
    """Returns why the agent may not continue, by the rules of `resume`; None when it may.

    An agent that waits for a reply may continue, even without permission. An agent that failed since it spoke may not (A10),
    nor may a composite that has ended (A3).
    """
    acting = acting_agent(name, request)
    if acting is not None and acting in waiting:
        return None
    mark = request.head.authors.get(name)
    # Before the rules of routing: `resume` goes on with agents that are not routed to, and has to know of it.
    if name in request.tree and mark is not None and mark.failed > mark.spoke:
        return Exclusion(agent=name, rule="failed", detail="its last turn failed")
    if acting is None:
        return _ineligible_reason(name, request)
    return why_not_resumed(acting, "tree", request)


def _ineligible_reason(name: str, request: SelectionRequest) -> Exclusion:
    if name not in request.tree:
        return Exclusion(agent=shortened(name), rule="unknown", detail="no agent has that name now")
    why = next((each for each in request.excluded if each.agent == name), None)
    return why or Exclusion(agent=name, rule="not_eligible", detail="it may not be chosen here")
