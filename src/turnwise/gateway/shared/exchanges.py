"""The conversation in a request: groups its messages into past turns, and matches them with a session's log. Pure functions.

A message's id is a hash of everything sent and answered up to it. The ids in a log therefore show how far it is the
caller's conversation, even where guardrails have rewritten its content.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from turnwise.facts.content import BlobPart, Content, DataPart, Part, TextPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import USER, Event
from turnwise.facts.sessions import Session
from turnwise.gateway.shared.stream import joined_text
from turnwise.runner import PastExchange, Result
from turnwise.runner.message.invocation import result_of
from turnwise.runner.message.open_invocations import is_over
from turnwise.runner.record.events import origin_of

INSTRUCTIONS = "instructions"
"""The name of the data part that carries the caller's instructions to the agent. Selectors ignore it."""
MOST_MESSAGES = 10_000
"""The maximum number of messages in one request, since each answer reads all of them."""


class PastTurn(NamedTuple):
    """A past turn as the caller reports it."""

    sent: Content
    """The message; without parts if nothing was sent before the answer."""
    text: str = ""
    """The answer's text."""
    calls: tuple[ToolCallPart, ...] = ()
    """The tool calls in the answer."""


class Exchanges:
    """Collects messages in order and groups them into turns.

    Attributes:
        past: The completed turns.
        sent: The parts that were sent after the last completed turn.
        answered: Whether an answer to `sent` was added.
    """

    def __init__(self) -> None:
        self.past: list[PastTurn] = []
        self.sent: list[Part] = []
        self.answered = False
        self._texts: list[str] = []
        self._calls: list[ToolCallPart] = []

    def send(self, parts: Iterable[Part]) -> None:
        """Adds sent parts. Completes the current turn if it has an answer."""
        self.close()
        self.sent += parts

    def answer(self, *texts: str, calls: Iterable[ToolCallPart] = ()) -> None:
        """Adds texts and tool calls to the answer of the current turn."""
        self.answered = True
        self._texts += filter(None, texts)
        self._calls += calls

    def close(self) -> None:
        """Completes the current turn if it has an answer."""
        if self.answered:
            sent = Content(role="user", parts=tuple(self.sent))
            self.past.append(PastTurn(sent, "\n".join(self._texts), tuple(self._calls)))
            self.sent, self._texts, self._calls, self.answered = [], [], [], False


def joined_instructions(texts: Iterable[str]) -> DataPart | None:
    """Returns the texts as one instructions part; None if all are blank."""
    joined = "\n\n".join(text for text in texts if text.strip())
    return DataPart(name=INSTRUCTIONS, data=joined) if joined else None


ID_PREFIX = "chat-"
_SESSION_DIGITS, _MESSAGE_DIGITS = 16, 32


class LoggedTurn(NamedTuple):
    """A user message in a log with everything up to the next message."""

    message_id: str
    """The message's id; "" if the turn does not begin with a user message."""
    invocation_id: str
    result: Result


class Match(NamedTuple):
    """How much of a conversation a log contains."""

    turns: int = 0
    """The number of matching turns."""
    before: str | None = None
    """The invocation with which the log continues differently; None if the match ends with the log."""


def session_base(past: Sequence[PastTurn], message: Content) -> str:
    """Returns the prefix of the ids of all sessions that begin with the same message."""
    opening = next((turn.sent for turn in past if turn.sent.parts), message)
    return ID_PREFIX + sha256(_canonical(opening).encode()).hexdigest()[:_SESSION_DIGITS]


def message_ids(past: Sequence[PastTurn], message: Content) -> list[str]:
    """Returns an id for the sent part of each past turn, and one for the new message."""
    digest, ids = b"", []
    for turn in (*past, PastTurn(message)):
        digest = sha256(digest + _canonical(turn.sent).encode()).digest()
        ids.append(ID_PREFIX + digest.hex()[:_MESSAGE_DIGITS])
        heard = [_without_whitespace(turn.text), [call.call_id for call in turn.calls]]
        digest = sha256(digest + json.dumps(heard).encode()).digest()
    return ids


def logged_turns(events: Sequence[Event]) -> list[LoggedTurn]:
    """Returns the turns of a log, oldest first.

    Messages that guardrails blocked do not begin a turn. Neither do late tool results, which belong to the turn that
    waits for them.
    """
    begins = _turn_starts(events)
    found = []
    for begin, end in zip(begins, [*begins[1:], len(events)], strict=True):
        first = events[begin]
        followed = [event for event in events[begin:end] if event.invocation_id == first.invocation_id]
        message_id = origin_of(first.id).message if first.author == USER else ""
        found.append(LoggedTurn(message_id, first.invocation_id, result_of(followed)))
    return found


def match(past: Sequence[PastTurn], ids: Sequence[str], moments: Sequence[LoggedTurn], session: Session) -> Match:
    """Returns how many of the past turns the session's log contains. `ids` are the turns' message ids."""
    places = {_without_suffix(moment.message_id): place for place, moment in enumerate(moments)}
    for turns in range(len(past), 0, -1):
        place = places.get(ids[turns - 1])
        if place is None or not _is_same_answer(past[turns - 1], moments[: place + 1], session):
            continue
        if place == len(moments) - 1:
            return Match(turns)
        following = moments[place + 1].invocation_id
        if all(moment.invocation_id != following for moment in moments[: place + 1]):
            return Match(turns, following)
    return Match()


def past_exchanges(past: Sequence[PastTurn], ids: Sequence[str]) -> Iterator[PastExchange]:
    """Yields the turns as exchanges to import. Tool results belong to the exchange in which the tools were called."""
    known: PastExchange | None = None
    for turn, id_ in zip(past, ids, strict=False):
        results: tuple[Part, ...] = turn.sent.tool_results
        asked = tuple(part for part in turn.sent.parts if _is_question(part))
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
    """Returns the turn with the content of its tool results replaced by a notice."""
    parts = [_without_result(part) if isinstance(part, ToolResultPart) else part for part in turn.sent.parts]
    return turn._replace(sent=turn.sent.with_parts(parts))


def _without_result(part: ToolResultPart) -> ToolResultPart:
    return part.replace(result="The result is not recorded.", failed=True)


def _is_same_answer(turn: PastTurn, moments: Sequence[LoggedTurn], session: Session) -> bool:
    """Returns whether the last logged turn is the answer that the caller has: all of it, or its beginning.

    A caller that disconnected early has only the beginning. Calls may be from earlier turns of the same invocation.
    """
    last = moments[-1]
    if last.result.end is None and not is_over(session, last.invocation_id):
        return True
    events = (event for each in moments if each.invocation_id == last.invocation_id for event in each.result.events)
    made = {call.call_id for event in events if event.content for call in event.content.tool_calls}
    heard, said = _without_whitespace(turn.text), _without_whitespace(joined_text(last.result.events))
    return said.startswith(heard) and all(call.call_id in made for call in turn.calls)


def _turn_starts(events: Sequence[Event]) -> list[int]:
    """Returns the indexes at which turns begin."""
    known, places = {event.invocation_id for event in events if event.author == USER}, []
    for place, event in enumerate(events):
        if event.author == USER and event.content is not None and not _is_late_result(event):
            places.append(place)
        elif event.invocation_id not in known:
            known.add(event.invocation_id)
            places.append(place)
    return places


def _is_late_result(event: Event) -> bool:
    """Returns whether the message brings late tool results, and was not sent with a conversation."""
    results = bool(event.content and event.content.tool_results)
    return results and not origin_of(event.id).message.startswith(ID_PREFIX)


def _is_question(part: Part) -> bool:
    """Returns whether the part belongs to a question: it is neither a tool result nor blank text."""
    return bool(part.text.strip()) if isinstance(part, TextPart) else not isinstance(part, ToolResultPart)


def _without_suffix(message_id: str) -> str:
    """Returns the id without the suffix that distinguishes messages with the same content."""
    return message_id[: len(ID_PREFIX) + _MESSAGE_DIGITS]


def _without_whitespace(text: str) -> str:
    """Returns the text without whitespace: clients trim answers and wrap lines."""
    return "".join(text.split())


def _canonical(content: Content) -> str:
    return json.dumps([_canonical_part(part) for part in content.parts], ensure_ascii=True, sort_keys=True)


def _canonical_part(part: Part) -> Any:
    if isinstance(part, TextPart):
        return ["text", part.text.strip()]
    if isinstance(part, BlobPart):
        return ["blob", part.mime_type, sha256(part.data).hexdigest()]
    return part.model_dump(mode="json")
