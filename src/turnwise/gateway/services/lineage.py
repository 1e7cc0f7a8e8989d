"""What a conversation that a caller repeats with every request has in common with a log. Pure.

The id of each message is made of all that the caller had said and heard up to it. So a log tells by its messages' ids how far
it is the caller's conversation, also where guardrails have rewritten what is in it.
"""

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from turnwise.facts.content import BlobPart, Content, Part, TextPart, ToolResultPart
from turnwise.facts.events import USER, Event
from turnwise.facts.sessions import Session
from turnwise.gateway.shared.exchanges import PastTurn
from turnwise.gateway.shared.utterances import joined_text
from turnwise.runner import PastExchange, Result
from turnwise.runner.message.continuation import is_over
from turnwise.runner.message.invocation import result_of
from turnwise.runner.record.events import origin_of

PREFIX = "chat-"
_SESSION_DIGITS, _MESSAGE_DIGITS = 16, 32


class LoggedTurn(NamedTuple):
    """A message in a log, and all that followed it there up to the next. message_id: "" when nobody had asked."""

    message_id: str
    invocation_id: str
    result: Result


class Match(NamedTuple):
    """How far a log is the caller's conversation: so many of its turns; before: the invocation with which the log goes on
    otherwise, None when that is its end.
    """

    turns: int = 0
    before: str | None = None


def session_base(past: Sequence[PastTurn], message: Content) -> str:
    """How the ids of all sessions begin that were opened with the same words."""
    opening = next((turn.sent for turn in past if turn.sent.parts), message)
    return PREFIX + sha256(_canonical(opening).encode()).hexdigest()[:_SESSION_DIGITS]


def message_ids(past: Sequence[PastTurn], message: Content) -> list[str]:
    """An id for what was sent in each turn, and for the message."""
    digest, ids = b"", []
    for turn in (*past, PastTurn(message)):
        digest = sha256(digest + _canonical(turn.sent).encode()).digest()
        ids.append(PREFIX + digest.hex()[:_MESSAGE_DIGITS])
        heard = [_squeezed(turn.text), [call.call_id for call in turn.calls]]
        digest = sha256(digest + json.dumps(heard).encode()).digest()
    return ids


def moments_in(events: Sequence[Event]) -> list[LoggedTurn]:
    """The messages of a log, oldest first, and what was said unasked. Messages that guardrails blocked are none, nor are
    results that came by another way: they belong to what waited for them.
    """
    begins = _begins(events)
    found = []
    for begin, end in zip(begins, [*begins[1:], len(events)], strict=True):
        first = events[begin]
        followed = [event for event in events[begin:end] if event.invocation_id == first.invocation_id]
        message_id = origin_of(first.id).message if first.author == USER else ""
        found.append(LoggedTurn(message_id, first.invocation_id, result_of(followed)))
    return found


def match(past: Sequence[PastTurn], ids: Sequence[str], moments: Sequence[LoggedTurn], session: Session) -> Match:
    """How far that session's log is these turns, whose ids are given."""
    places = {_root(moment.message_id): place for place, moment in enumerate(moments)}
    for turns in range(len(past), 0, -1):
        place = places.get(ids[turns - 1])
        if place is None or not _fits(past[turns - 1], moments[: place + 1], session):
            continue
        if place == len(moments) - 1:
            return Match(turns)
        following = moments[place + 1].invocation_id
        if all(moment.invocation_id != following for moment in moments[: place + 1]):
            return Match(turns, following)
    return Match()


def past_exchanges(past: Sequence[PastTurn], ids: Sequence[str]) -> Iterator[PastExchange]:
    """The turns as they are put on record: results of tools belong to the exchange in which they were called."""
    known: PastExchange | None = None
    for turn, id_ in zip(past, ids, strict=False):
        results: tuple[Part, ...] = turn.sent.tool_results
        asked = tuple(part for part in turn.sent.parts if _asks(part))
        answer: tuple[Part, ...] = (*([TextPart(text=turn.text)] if turn.text else []), *turn.calls)
        said = [Content(parts=parts) for parts in (results, answer) if parts]
        if known is not None and not asked and results:
            known = known._replace(said=(*known.said, *said))
            continue
        if known is not None:
            yield known
        known = PastExchange(Content(role="user", parts=asked) if asked else None, tuple(said), id_)
    if known is not None:
        yield known


def without_results(turn: PastTurn) -> PastTurn:
    """The turn, without what calls gave: only that they were made."""
    parts = [_unproven(part) if isinstance(part, ToolResultPart) else part for part in turn.sent.parts]
    return turn._replace(sent=turn.sent.model_copy(update={"parts": tuple(parts)}))


def _unproven(part: ToolResultPart) -> ToolResultPart:
    return part.model_copy(update={"result": "What it gave is not on record.", "failed": True})


def _fits(turn: PastTurn, moments: Sequence[LoggedTurn], session: Session) -> bool:
    """Whether the answer in the last of these is what the caller heard: all of it, or its beginning, if he left before its
    end. Calls may be older than the message after which their results are still awaited.
    """
    last = moments[-1]
    if last.result.end is None and not is_over(session, last.invocation_id):
        return True
    events = (event for each in moments if each.invocation_id == last.invocation_id for event in each.result.events)
    made = {call.call_id for event in events if event.content for call in event.content.tool_calls}
    heard, said = _squeezed(turn.text), _squeezed(joined_text(last.result.events))
    return said.startswith(heard) and all(call.call_id in made for call in turn.calls)


def _begins(events: Sequence[Event]) -> list[int]:
    """Where moments begin."""
    known, places = {event.invocation_id for event in events if event.author == USER}, []
    for place, event in enumerate(events):
        if event.author == USER and event.content is not None and not _reported(event):
            places.append(place)
        elif event.invocation_id not in known:
            known.add(event.invocation_id)
            places.append(place)
    return places


def _reported(event: Event) -> bool:
    """Whether the message brought what calls gave, and no client with its conversation sent it."""
    results = bool(event.content and event.content.tool_results)
    return results and not origin_of(event.id).message.startswith(PREFIX)


def _asks(part: Part) -> bool:
    """Whether it can be a message's; of results and of nothing none is made."""
    return bool(part.text.strip()) if isinstance(part, TextPart) else not isinstance(part, ToolResultPart)


def _root(message_id: str) -> str:
    """The id without what tells it from others of the same words."""
    return message_id[: len(PREFIX) + _MESSAGE_DIGITS]


def _squeezed(text: str) -> str:
    """The text without space: clients trim answers, and break lines otherwise."""
    return "".join(text.split())


def _canonical(content: Content) -> str:
    return json.dumps([_part(part) for part in content.parts], ensure_ascii=True, sort_keys=True)


def _part(part: Part) -> Any:
    if isinstance(part, TextPart):
        return ["text", part.text.strip()]
    if isinstance(part, BlobPart):
        return ["blob", part.mime_type, sha256(part.data).hexdigest()]
    return part.model_dump(mode="json")
