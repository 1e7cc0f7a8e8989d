"""From a request to what the decision rests on: who has the conversation, who was visited, who waits."""

from collections.abc import Mapping

from turnwise.facts.sessions import RECENT_CHARACTERS, Exchange
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.active_agent import Standing, going_on
from turnwise.selection.contextual.situation import Past, Turn
from turnwise.selection.contextual.wording import said, wording
from turnwise.selection.meaning import Reading


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
                agent=going_on(exchange.agent, request),
                said=said(exchange.before),
                joined=readings.get(joined(exchange.before, exchange.message)),
            )
            for exchange in earlier
        ),
        active=stands.active,
        visited=stands.visited,
        previous=tuple(n for n in request.context.previous_agents if going_on(n, request) == n),
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
