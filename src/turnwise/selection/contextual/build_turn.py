"""Collects the inputs of the contextual decision from a request."""

from collections.abc import Mapping, Sequence

from turnwise.facts.sessions import RECENT_CHARACTERS, Exchange, OpenMatter
from turnwise.matching.text_features import text_features
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.active_agent import ConversationState, continuing_agent
from turnwise.selection.contextual.clauses import clauses_of
from turnwise.selection.contextual.situation import Clause, EarlierMessage, LeftMatter, Turn
from turnwise.selection.contextual.wording import read_message, read_reply
from turnwise.selection.meaning import TextReading

READ_MATTERS = 3
"""How many open matters are read, the latest ones."""


def user_messages(request: SelectionRequest) -> list[str]:
    """Returns the user's messages to read, without duplicates: the current one and earlier ones."""
    texts = [request.text, *(each.message for each in _earlier(request))]
    return [text for text in dict.fromkeys(texts) if text.strip()]


def context_texts(request: SelectionRequest) -> list[str]:
    """Returns the other texts to read, without duplicates: the last reply, and each message joined with the reply before it."""
    reply = request.head.last_reply
    texts = [reply, joined_text(reply, request.text), *(joined_text(each.before, each.message) for each in _earlier(request))]
    texts += clauses_of(request.text) if reply else ()
    for matter in _open_matters(request):
        texts += [matter.said, joined_text(matter.said, request.text)]
    return [text for text in dict.fromkeys(texts) if text.strip()]


def build_turn(
    request: SelectionRequest,
    state: ConversationState,
    readings: Mapping[str, TextReading],
    *,
    hits: Mapping[str, float],
    named: Mapping[str, float],
    general: str | None,
) -> Turn:
    """Builds the turn from the readings of `user_messages` and `context_texts`.

    When the active agent may not continue, the message is treated as the start of a conversation: the history would favour
    that agent.
    """
    reply = "" if state.passed_over else request.head.last_reply
    matters = () if state.passed_over else _open_matters(request)
    earlier = [] if state.passed_over else _earlier(request)
    return Turn(
        message=readings[request.text],
        wording=read_message(readings[request.text].corrected.text),
        reply=readings.get(reply),
        joined=readings.get(joined_text(reply, request.text)),
        reply_wording=read_reply(reply),
        past=tuple(
            EarlierMessage(
                reading=readings[exchange.message],
                wording=read_message(readings[exchange.message].corrected.text),
                agent=continuing_agent(exchange.agent, request),
                reply_wording=read_reply(exchange.before),
                joined=readings.get(joined_text(exchange.before, exchange.message)),
            )
            for exchange in earlier
        ),
        active=state.active,
        visited=state.visited,
        previous=tuple(n for n in request.context.previous_agents if continuing_agent(n, request) == n),
        awaiting=state.awaiting,
        offered=tuple(name for name in request.head.offered if name in request.eligible),
        hits=hits,
        named=named,
        general=general,
        noted={
            each.agent: each.type for each in reversed(request.noted) if continuing_agent(each.agent, request) == each.agent
        },
        clauses=read_clauses(request.text, readings) if reply else (),
        matters=read_matters([each for each in matters if each.agent != state.active], request.text, readings),
    )


def read_clauses(message: str, readings: Mapping[str, TextReading]) -> tuple[Clause, ...]:
    """Returns the message's clauses, from their readings."""
    return tuple(Clause(readings[text], _asks(text)) for text in clauses_of(message))


def read_matters(matters: Sequence[OpenMatter], message: str, readings: Mapping[str, TextReading]) -> tuple[LeftMatter, ...]:
    """Returns the open matters, from the readings of their words and of those joined with the message."""
    return tuple(
        LeftMatter(each.agent, read_reply(each.said), readings[each.said], readings[joined_text(each.said, message)])
        for each in matters
    )


def joined_text(reply: str, message: str) -> str:
    """Joins the end of a reply with the message after it; empty without a reply.

    The joined text is often more informative than the two texts separately.
    """
    end = reply[-RECENT_CHARACTERS:].strip()
    return f"{end} {message[:RECENT_CHARACTERS]}" if end else ""


def _asks(text: str) -> bool:
    found = text_features(text)
    return found.asks or found.imperative or found.question_word or found.question_mark


def _open_matters(request: SelectionRequest) -> list[OpenMatter]:
    """Returns the matters of agents that may continue, the latest first."""
    latest = request.head.matters[::-1]
    return [each for each in latest if continuing_agent(each.agent, request) == each.agent][:READ_MATTERS]


def _earlier(request: SelectionRequest) -> list[Exchange]:
    recent = request.head.recent
    if recent and recent[-1].agent is None and recent[-1].message == request.text[:RECENT_CHARACTERS]:
        recent = recent[:-1]  # inside a turn, the last entry is the current message
    return [exchange for exchange in reversed(recent) if exchange.message.strip()]
