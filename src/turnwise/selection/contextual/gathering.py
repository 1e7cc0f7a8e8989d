"""From a request to what the decision rests on: who has the conversation, who was visited, who waits."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from turnwise.facts.selections import Exclusion
from turnwise.facts.sessions import Exchange
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.contextual.situation import Past, Turn
from turnwise.selection.contextual.wording import said, wording
from turnwise.selection.meaning import Reading
from turnwise.selection.verdicts import shown


class Standing(NamedTuple):
    """Who stands where in the conversation, eligible ones only.

    active: who has it. visited: who else spoke, most recent first. awaiting: who waits for a reply. passed_over: who had the
    conversation and may not go on with it, and why.
    """

    active: str | None
    visited: tuple[str, ...]
    awaiting: str | None
    passed_over: tuple[Exclusion, ...] = ()


def standing(request: SelectionRequest) -> Standing:
    """Read off the session's head, without regard to the message."""
    head = request.head
    spoke = sorted(((mark.spoke, name) for name, mark in head.authors.items() if mark.spoke), reverse=True)
    last = head.active_agent
    # Who was handed the floor and has neither answered nor failed has the conversation, not who handed it over.
    given = max(((mark.handed, name) for name, mark in head.authors.items() if mark.handed > mark.failed), default=None)
    if given and given[0] > (spoke[0][0] if spoke else 0) and given[0] > head.authors[given[1]].skipped:
        last = given[1]
    active = None if head.offered else _may_go_on(last, request)
    passed_over = () if last is None or active or head.offered else (_why_not(last, request),)
    visited = [_stands_for(name, request) for _, name in spoke]
    waiting = next(
        (
            found
            for _, agent, wait in head.waiting()
            if wait.kind == "reply" and (found := _stands_for(agent, request)) is not None
        ),
        None,
    )
    others = tuple(dict.fromkeys(name for name in visited if name is not None and name != active))
    return Standing(active, others, waiting, passed_over)


def texts_of(request: SelectionRequest) -> list[str]:
    """The texts to read besides the message: the last reply if there is one, then earlier messages, newest first."""
    reply = [request.head.last_reply] if request.head.last_reply.strip() else []
    return reply + [exchange.message for exchange in _earlier(request)]


def turn_of(
    request: SelectionRequest,
    stands: Standing,
    readings: Sequence[Reading],
    *,
    hits: Mapping[str, float],
    named: Mapping[str, float],
    general: str | None,
) -> Turn:
    """The turn. readings: of the message, then of `texts_of`."""
    message, *rest = readings
    reply = rest.pop(0) if request.head.last_reply.strip() else None
    earlier = _earlier(request)
    return Turn(
        message=message,
        wording=wording(request.text),
        reply=reply,
        said=said(request.head.last_reply),
        past=tuple(
            Past(reading, wording(exchange.message), _stands_for(exchange.agent, request))
            for reading, exchange in zip(rest, earlier, strict=True)
        ),
        active=stands.active,
        visited=stands.visited,
        previous=tuple(name for name in request.context.previous_agents if name in request.eligible),
        awaiting=stands.awaiting,
        offered=tuple(name for name in request.head.offered if name in request.eligible),
        hits=hits,
        named=named,
        general=general,
    )


def _earlier(request: SelectionRequest) -> list[Exchange]:
    return [exchange for exchange in reversed(request.head.recent) if exchange.message.strip()]


def _stands_for(name: str | None, request: SelectionRequest) -> str | None:
    """The agent itself if it may be chosen, else the nearest composite above it that may: that one runs it."""
    if name is None or name not in request.tree:
        return None
    if name in request.eligible:
        return name
    above = request.tree.chain(name)[1:]
    return next((each for each in above if request.tree.card(each).is_composite and each in request.eligible), None)


def _may_go_on(name: str | None, request: SelectionRequest) -> str | None:
    found = _stands_for(name, request)
    return None if found is None or request.tree.card(found).resume == "never" else found


def _why_not(name: str, request: SelectionRequest) -> Exclusion:
    if name not in request.tree:
        return Exclusion(agent=shown(name), rule="unknown", detail="no agent has that name now")
    if name in request.eligible:
        return Exclusion(agent=name, rule="not_resumable", detail="its card says never")
    why = next((each for each in request.excluded if each.agent == name), None)
    return why or Exclusion(agent=name, rule="not_eligible", detail="it may not be chosen here")
