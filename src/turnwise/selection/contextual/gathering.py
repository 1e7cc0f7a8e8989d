"""From a request to what the decision rests on: who has the conversation, who was visited, who waits."""

from collections.abc import Mapping
from typing import NamedTuple

from turnwise.facts.selections import Exclusion
from turnwise.facts.sessions import RECENT_CHARACTERS, Exchange
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.contextual.situation import Past, Turn
from turnwise.selection.contextual.wording import said, wording
from turnwise.selection.meaning import Reading
from turnwise.selection.resume import why_not_resumed
from turnwise.selection.verdicts import shown


class Standing(NamedTuple):
    """Who stands where in the conversation, eligible ones only.

    active: who has it. visited: who else spoke and may go on, most recent first. awaiting: who waits for a reply. passed_over:
    who had the conversation and may not go on with it, and why.
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
    waiting = next(
        (
            found
            for _, agent, wait in head.waiting()
            if wait.kind == "reply" and (found := _stands_for(agent, request)) is not None
        ),
        None,
    )
    why_not = None if last is None or head.offered else _obstacle(last, request, waiting)
    active = None if last is None or head.offered or why_not else _stands_for(last, request)
    passed_over = () if why_not is None else (why_not,)
    visited = [_going_on(name, request, waiting) for _, name in spoke]
    others = tuple(dict.fromkeys(name for name in visited if name is not None and name != active))
    return Standing(active, others, waiting, passed_over)


def messages_of(request: SelectionRequest) -> list[str]:
    """What the user said that is looked at, each text once: the message and earlier ones."""
    texts = [request.text, *(each.message for each in _earlier(request))]
    return [text for text in dict.fromkeys(texts) if text.strip()]


def lines_of(request: SelectionRequest) -> list[str]:
    """What else is read, each text once: the last reply, and all messages joined with what was said before them."""
    reply = request.head.last_reply
    texts = [reply, joined(reply, request.text), *(joined(each.before, each.message) for each in _earlier(request))]
    return [text for text in dict.fromkeys(texts) if text.strip()]


def turn_of(
    request: SelectionRequest,
    stands: Standing,
    readings: Mapping[str, Reading],
    *,
    hits: Mapping[str, float],
    named: Mapping[str, float],
    general: str | None,
) -> Turn:
    """The turn. readings: of `messages_of` and `lines_of`.

    When the agent that had the conversation may not go on, the message is read as an opening: what was said before would
    speak for that agent.
    """
    reply = "" if stands.passed_over else request.head.last_reply
    earlier = [] if stands.passed_over else _earlier(request)
    return Turn(
        message=readings[request.text],
        wording=wording(readings[request.text].mended.text),
        reply=readings.get(reply),
        joined=readings.get(joined(reply, request.text)),
        said=said(reply),
        past=tuple(
            Past(
                reading=readings[exchange.message],
                wording=wording(readings[exchange.message].mended.text),
                agent=_going_on(exchange.agent, request, stands.awaiting),
                said=said(exchange.before),
                joined=readings.get(joined(exchange.before, exchange.message)),
            )
            for exchange in earlier
        ),
        active=stands.active,
        visited=stands.visited,
        previous=tuple(n for n in request.context.previous_agents if _going_on(n, request, stands.awaiting) == n),
        awaiting=stands.awaiting,
        offered=tuple(name for name in request.head.offered if name in request.eligible),
        hits=hits,
        named=named,
        general=general,
    )


def joined(reply: str, message: str) -> str:
    """A reply's end and the message after it as one text, which often says more than both apart; empty without a reply."""
    end = reply[-RECENT_CHARACTERS:].strip()
    return f"{end} {message[:RECENT_CHARACTERS]}" if end else ""


def _earlier(request: SelectionRequest) -> list[Exchange]:
    recent = request.head.recent
    if recent and recent[-1].agent is None and recent[-1].message == request.text[:RECENT_CHARACTERS]:
        recent = recent[:-1]  # where it is decided inside of a turn, the message itself
    return [exchange for exchange in reversed(recent) if exchange.message.strip()]


def _stands_for(name: str | None, request: SelectionRequest) -> str | None:
    """The agent itself if it may be chosen, else the nearest composite above it that may: that one runs it."""
    if name is None or name not in request.tree:
        return None
    if name in request.eligible:
        return name
    above = request.tree.chain(name)[1:]
    return next((each for each in above if request.tree.card(each).is_composite and each in request.eligible), None)


def _going_on(name: str | None, request: SelectionRequest, waiting: str | None) -> str | None:
    """Who stands for the agent, if that one may go on with the conversation: only then does what was said speak for it."""
    if name is None or _obstacle(name, request, waiting) is not None:
        return None
    return _stands_for(name, request)


def _obstacle(name: str, request: SelectionRequest, waiting: str | None) -> Exclusion | None:
    """Why the agent may not go on, by the rules of `resume`; None when it may. Who waits for a reply may, whatever its
    permissions; who failed since it spoke may not (A10), nor a composite that has ended (A3).
    """
    found = _stands_for(name, request)
    if found is None:
        return _why_not(name, request)
    if found == waiting:
        return None
    mark = request.head.authors.get(name)
    if mark is not None and mark.failed > mark.spoke:
        return Exclusion(agent=name, rule="failed", detail="its last turn failed")
    return why_not_resumed(found, "tree", request)


def _why_not(name: str, request: SelectionRequest) -> Exclusion:
    if name not in request.tree:
        return Exclusion(agent=shown(name), rule="unknown", detail="no agent has that name now")
    why = next((each for each in request.excluded if each.agent == name), None)
    return why or Exclusion(agent=name, rule="not_eligible", detail="it may not be chosen here")
