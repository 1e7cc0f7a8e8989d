"""Sessions for stateless clients, which send the whole conversation with each request and name no session.

The session is found by a hash of the conversation's opening, and the position in it by the ids of its messages.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from typing import NamedTuple

from turnwise.access.rights import may_report_late_results
from turnwise.facts.content import Content, DataPart, TextPart
from turnwise.facts.errors import SessionBusy, SessionError, SessionExists, StaleWriter, TurnwiseError, UnknownToolCall
from turnwise.facts.events import USER
from turnwise.facts.ids import Issuer
from turnwise.facts.limits import RunConfig
from turnwise.facts.messages import MessageContext
from turnwise.facts.sessions import Session, SessionKey
from turnwise.gateway.services.background import Locks
from turnwise.gateway.services.messages import NO_CONTEXT, MessageRequest, Messages
from turnwise.gateway.services.session_admission import Prices, SessionScope
from turnwise.gateway.shared.exchanges import (
    Match,
    PastTurn,
    logged_turns,
    match,
    message_ids,
    past_exchanges,
    session_base,
    without_results,
)
from turnwise.runner import Invocation, Runner

MAX_REFUSED = 10_000
"""How many refused requests are remembered."""


class RefusedRequests:
    """Counts how often each request was refused. When it is full, it forgets the oldest request."""

    def __init__(self, most: int = MAX_REFUSED) -> None:
        self._most = most
        self._times: Counter[Hashable] = Counter()

    def add(self, signature: Hashable) -> None:
        """Records that the request was refused once more."""
        self._times[signature] += 1
        if len(self._times) > self._most:
            del self._times[next(iter(self._times))]

    def take(self, signature: Hashable) -> bool:
        """Returns whether a refusal of the request is recorded, and removes one such record."""
        if not self._times[signature]:
            del self._times[signature]
            return False
        self._times[signature] -= 1
        return True


SESSIONS_SEARCHED = 20
"""How many sessions with the same opening are searched, the newest first."""
RECENT_EVENTS = 60
"""How many of the newest events are compared first. A conversation that simply continues matches at its end."""
RETRY_WINDOW = timedelta(minutes=2)
"""How long after its end an answer still serves a repeated request: clients retry within seconds."""


class ConversationRequest(NamedTuple):
    """A request that carries the whole conversation: its past turns and the new message."""

    past: Sequence[PastTurn]
    """The past turns, oldest first."""
    message: Content
    """The new message."""
    instructions: DataPart | None = None
    """System or developer instructions for the agent."""
    session: str | None = None
    """The session's id, if the request names one."""
    agent: str | None = None
    """The agent that has to answer, past all selectors; None to select one."""
    context: MessageContext = NO_CONTEXT
    config: RunConfig | None = None
    repeated: bool = False
    """Whether the client marks the request as a retry."""
    key: str | None = None
    """The client's idempotency key."""
    id: str | None = None
    """The id of the message; only with `session`."""


class _Place(NamedTuple):
    """The session that a message goes to, and the message's id in it."""

    session: str
    message_id: str


class Conversations:
    """Finds or creates the session of a conversation and sends its new message.

    All methods raise Forbidden and the runner's errors.
    """

    def __init__(
        self,
        runner: Runner,
        scope: SessionScope,
        messages: Messages,
        locks: Locks,
        refused: RefusedRequests,
        prices: Prices,
        issuer: Issuer,
    ) -> None:
        self._runner, self._scope, self._messages = runner, scope, messages
        self._locks, self._refused, self._prices, self._issuer = locks, refused, prices, issuer

    async def send(self, request: ConversationRequest) -> Invocation:
        """Finds the session with a log that matches the past turns, and sends the message there, as `Messages.start` does.

        If the log continues differently after the matching turns, the message goes to a fork of the matching part.
        Turns that are in no log are imported first. Tool results in them are replaced unless the caller may report
        them. A repeated request returns the invocation that the first request started.

        Raises:
            UnknownToolCall: The message brings tool results that no invocation waits for.
        """
        user = self._scope.user("messages:write")
        base = session_base(request.past, request.message) if request.session is None else request.session
        ids = message_ids(request.past, request.message)
        signature = user, base, ids[-1]
        if not may_report_late_results(self._scope.caller):
            request = request._replace(past=tuple(map(without_results, request.past)))
        if request.repeated and self._refused.take(signature):
            request = request._replace(repeated=False)
        # Two concurrent requests must not both find the same place free.
        async with self._locks.of((user, base)):
            find = self._place_by_content if request.session is None else self._place_in_named_session
            try:
                place = await find(self._runner.key(user, base), request, ids)
                content = await self._content(self._runner.key(user, place.session), request)
                message = MessageRequest(
                    place.session, content, place.message_id, request.context, request.config, request.agent
                )
                return await self._messages.start(message)
            except TurnwiseError:
                self._refused.add(signature)
                raise

    async def _place_in_named_session(self, key: SessionKey, request: ConversationRequest, ids: Sequence[str]) -> _Place:
        """Returns the place at the end of the named session. Past turns are imported only into an empty session."""
        session = await self._runner.store.open(key)
        if request.message.tool_results:
            return _Place(key.id, request.id or message_ids((), request.message)[0])
        may_make = (request.config or self._runner.config).create_session
        while request.past and (may_make if session is None else not session.last_sequence):
            with suppress(SessionExists, SessionBusy, StaleWriter):  # another process wrote first
                session = await self._import_turns(key, request, ids, after=0)
                break
            session = await self._runner.store.open(key)
        if request.id is not None:
            return _Place(key.id, request.id)
        if request.key is not None:
            return _Place(key.id, _keyed(ids[-1], request.key))
        turns = session.head.turns if session else 0
        numbered = [f"{ids[-1]}-{number}" for number in (turns, turns - 1)]
        for id_ in numbered if request.repeated else ():
            if await self._is_recent(key, id_):
                return _Place(key.id, id_)
        return _Place(key.id, await self._free_id(key, numbered[0]))

    async def _place_by_content(self, base: SessionKey, request: ConversationRequest, ids: Sequence[str]) -> _Place:
        """Returns the place in the session that matches the conversation; forks, imports or starts one if needed."""
        newest = await self._highest_number(base)
        id_ = ids[-1] if request.key is None else _keyed(ids[-1], request.key)
        begins = not (request.past or request.repeated or request.key or request.message.tool_results)
        sessions = [] if begins else await self._newest_sessions(base, newest)
        if (again := await self._place_of_retry(sessions, id_, request)) is not None:
            return again
        session, found = await self._best_match(sessions, ids, request)
        whole = session is not None and found == Match(len(request.past))
        if request.message.tool_results and not whole:
            raise UnknownToolCall(
                "This conversation does not wait for the results of these calls.",
                fix="Send them once, after the messages with the calls, as received.",
            )
        if not request.past:
            return _Place(_numbered(base, newest + 1).id, id_)
        if session is None:
            return _Place((await self._import_to_new_session(base, newest, request, ids)).id, id_)
        key = session.key if found.before is None else await self._fork(session, found.before, base, newest)
        if found.turns < len(request.past):
            try:
                after = session.last_sequence if key == session.key else None
                await self._import_turns(key, request, ids, found.turns, after=after)
            except (SessionBusy, StaleWriter):  # another request continues the session differently
                return _Place((await self._import_to_new_session(base, newest, request, ids)).id, id_)
        return _Place(key.id, await self._free_id(key, id_) if whole else id_)

    async def _place_of_retry(self, sessions: Sequence[Session], id_: str, request: ConversationRequest) -> _Place | None:
        """Returns the place where this request was started before; None for a new request.

        Tool results and requests with a key are sent only once, so they are looked up even without the retry mark.
        """
        for session in sessions if request.repeated else ():
            if await self._is_recent(session.key, id_):
                return _Place(session.id, id_)
        if request.key is not None or request.message.tool_results:
            for session in sessions:
                if not await self._is_free(session.key, id_):
                    return _Place(session.id, id_)
        return None

    async def _best_match(
        self, sessions: Sequence[Session], ids: Sequence[str], request: ConversationRequest
    ) -> tuple[Session | None, Match]:
        """Returns the session with the longest match, and the match."""
        best: tuple[Session | None, Match] = (None, Match())
        whole, sent = Match(len(request.past)), sum(bool(turn.sent.parts) for turn in request.past)
        for session in sorted(sessions if request.past else (), key=lambda each: each.head.turns != sent):
            for last in (RECENT_EVENTS, None):
                if last is None:
                    await self._prices.search(session)
                found = match(
                    request.past, ids, logged_turns(await self._runner.sessions.events(session.key, last=last)), session
                )
                if found == whole:
                    return session, found
            if found.turns > best[1].turns:
                best = session, found
        return best

    async def _content(self, key: SessionKey, request: ConversationRequest) -> Content:
        """Returns the message with the instructions in front, unless a recent message already carries the same instructions."""
        content, instructions = request.message, request.instructions
        has_text = any(not isinstance(part, TextPart) or part.text.strip() for part in content.parts)
        if instructions is None or not has_text or content.tool_results:
            return content
        recent = await self._runner.sessions.events(key, last=RECENT_EVENTS)
        if any(event.author == USER and event.content and instructions in event.content.parts for event in recent):
            return content
        return content.with_parts((instructions, *content.parts))

    async def _import_to_new_session(
        self, base: SessionKey, newest: int, request: ConversationRequest, ids: Sequence[str]
    ) -> SessionKey:
        """Creates a session and imports the conversation's past turns."""
        while True:
            newest += 1
            with suppress(SessionExists):
                return (await self._import_turns(_numbered(base, newest), request, ids, new=True)).key

    async def _fork(self, session: Session, before: str, base: SessionKey, newest: int) -> SessionKey:
        """Copies the session's events before the invocation to a new session."""
        await self._prices.fork(session.key)
        while True:
            newest += 1
            with suppress(SessionExists):
                copy = await self._runner.sessions.fork(session.key, _numbered(base, newest).id, before_invocation=before)
                return copy.key

    async def _import_turns(
        self,
        key: SessionKey,
        request: ConversationRequest,
        ids: Sequence[str],
        begin: int = 0,
        *,
        new: bool = False,
        after: int | None = None,
    ) -> Session:
        """Stores past turns in the session, from index `begin` on, and counts them against the caller's quota."""
        past = list(past_exchanges(request.past[begin:], ids[begin:]))
        await self._prices.imports(key, len(past))
        return await self._runner.sessions.bring(key, past, author=request.agent, new=new, after=after)

    async def _newest_sessions(self, base: SessionKey, newest: int) -> list[Session]:
        numbers = range(newest, max(newest - SESSIONS_SEARCHED, 0), -1)
        opened = [await self._runner.store.open(_numbered(base, number)) for number in numbers]
        return [session for session in opened if session is not None]

    async def _highest_number(self, base: SessionKey) -> int:
        """Returns the highest number of a session with this opening; 0 if there is none.

        The binary search may return a lower number after sessions were deleted.
        """
        low, high = 0, 1
        while await self._runner.store.open(_numbered(base, high)) is not None:
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            if await self._runner.store.open(_numbered(base, middle)) is None:
                high = middle
            else:
                low = middle
        return low

    async def _is_recent(self, key: SessionKey, message_id: str) -> bool:
        """Returns whether the message is being answered or was answered within `RETRY_WINDOW`."""
        try:
            reading = await self._runner.sessions.reading(key, message_id=message_id)
        except SessionError:
            return False
        if reading.state == "running" or reading.result is None:
            return True
        return self._issuer.now() - reading.result.events[-1].created_at <= RETRY_WINDOW

    async def _is_free(self, key: SessionKey, message_id: str) -> bool:
        return await self._runner.store.inbox.receipt(key, message_id) is None

    async def _free_id(self, key: SessionKey, message_id: str) -> str:
        """Returns the id, or a variant of it if a rewound message has used it."""
        free = await self._is_free(key, message_id)
        return message_id if free else f"{message_id}-{self._issuer.new_id('again')}"


def _numbered(base: SessionKey, number: int) -> SessionKey:
    return base._replace(id=f"{base.id}-{number}")


def _keyed(message_id: str, key: str) -> str:
    return f"{message_id}-{sha256(key.encode(errors='replace')).hexdigest()[:16]}"
