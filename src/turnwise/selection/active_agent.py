"""Who has the conversation, and who may go on with it, as the session's head shows it. Pure."""

from collections.abc import Collection
from typing import NamedTuple

from turnwise.facts.selections import Exclusion
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.resume import why_not_resumed
from turnwise.selection.verdicts import shortened


class ConversationState(NamedTuple):
    """Who stands where in the conversation, eligible ones only.

    active: who has it. visited: who else spoke and may go on, most recent first. awaiting: who waits for a reply. passed_over:
    who had the conversation and may not go on with it, and why.
    """

    active: str | None
    visited: tuple[str, ...]
    awaiting: str | None
    passed_over: tuple[Exclusion, ...] = ()


def conversation_state(request: SelectionRequest) -> ConversationState:
    """Read off the session's head, without regard to the message."""
    head = request.head
    spoke = sorted(((mark.spoke, name) for name, mark in head.authors.items() if mark.spoke), reverse=True)
    last = head.active_agent
    # Who was handed the floor and has neither answered nor failed has the conversation, not who handed it over.
    given = max(((mark.handed, name) for name, mark in head.authors.items() if mark.handed > mark.failed), default=None)
    if given and given[0] > (spoke[0][0] if spoke else 0) and given[0] > head.authors[given[1]].skipped:
        last = given[1]
    waiting = _waiting(request)
    why_not = None if last is None or head.offered else _obstacle(last, request, waiting)
    active = None if last is None or head.offered or why_not else is_on_behalf_of(last, request)
    passed_over = () if why_not is None else (why_not,)
    visited = [continuing_agent(name, request) for _, name in spoke]
    others = tuple(dict.fromkeys(name for name in visited if name is not None and name != active))
    return ConversationState(active, others, next(iter(waiting), None), passed_over)


def is_on_behalf_of(name: str | None, request: SelectionRequest) -> str | None:
    """The agent itself if it may be chosen, else the nearest composite above it that may: that one runs it."""
    if name is None or name not in request.tree:
        return None
    if name in request.eligible:
        return name
    above = request.tree.chain(name)[1:]
    return next((each for each in above if request.tree.card(each).is_composite and each in request.eligible), None)


def continuing_agent(name: str | None, request: SelectionRequest) -> str | None:
    """Who stands for the agent, if that one may go on with the conversation: only then does what was said speak for it."""
    if name is None or _obstacle(name, request, _waiting(request)) is not None:
        return None
    return is_on_behalf_of(name, request)


def _waiting(request: SelectionRequest) -> tuple[str, ...]:
    """Who stands for the agents that wait for a reply, in the order of the head."""
    found = (is_on_behalf_of(agent, request) for _, agent, wait in request.head.waiting() if wait.kind == "reply")
    return tuple(dict.fromkeys(name for name in found if name is not None))


def _obstacle(name: str, request: SelectionRequest, waiting: Collection[str]) -> Exclusion | None:
    """Why the agent may not go on, by the rules of `resume`; None when it may. Who waits for a reply may, whatever its
    permissions; who failed since it spoke may not (A10), nor a composite that has ended (A3).
    """
    found = is_on_behalf_of(name, request)
    if found is not None and found in waiting:
        return None
    mark = request.head.authors.get(name)
    # Before the rules of routing: `resume` goes on with agents that are not routed to, and has to know of it.
    if name in request.tree and mark is not None and mark.failed > mark.spoke:
        return Exclusion(agent=name, rule="failed", detail="its last turn failed")
    if found is None:
        return _why_not(name, request)
    return why_not_resumed(found, "tree", request)


def _why_not(name: str, request: SelectionRequest) -> Exclusion:
    if name not in request.tree:
        return Exclusion(agent=shortened(name), rule="unknown", detail="no agent has that name now")
    why = next((each for each in request.excluded if each.agent == name), None)
    return why or Exclusion(agent=name, rule="not_eligible", detail="it may not be chosen here")
