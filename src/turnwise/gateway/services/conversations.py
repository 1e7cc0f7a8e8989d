"""Conversations of callers who tell all of it with every request, and name no session: they are found by what was said."""

import asyncio
from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from typing import NamedTuple
from weakref import WeakValueDictionary

from turnwise.access.rights import may_report_late_results
from turnwise.facts.callers import Caller
from turnwise.facts.content import Content, DataPart, TextPart
from turnwise.facts.errors import SessionBusy, SessionError, SessionExists, StaleWriter, TurnwiseError, UnknownToolCall
from turnwise.facts.events import USER
from turnwise.facts.ids import Issuer, SystemIssuer
from turnwise.facts.limits import RunConfig
from turnwise.facts.messages import MessageContext
from turnwise.facts.sessions import Session, SessionKey
from turnwise.gateway.services.lineage import (
    Match,
    match,
    message_ids,
    moments_in,
    past_exchanges,
    session_base,
    without_results,
)
from turnwise.gateway.services.messages import NO_CONTEXT, MessageRequest, Messages
from turnwise.gateway.services.session_scope import SessionScope
from turnwise.gateway.shared.exchanges import PastTurn
from turnwise.runner import Invocation, Result, Runner
from turnwise.transcript.waits import AwaitedCall, open_calls

MOST = 10_000


class RefusedRequests:
    """Counts refusals by what was asked. The oldest are forgotten."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._times: Counter[Hashable] = Counter()

    def add(self, asked: Hashable) -> None:
        """It was refused once more."""
        self._times[asked] += 1
        if len(self._times) > self._most:
            del self._times[next(iter(self._times))]

    def take(self, asked: Hashable) -> bool:
        """Whether it was refused and has not come again since; now it has."""
        if not self._times[asked]:
            del self._times[asked]
            return False
        self._times[asked] -= 1
        return True


LOOKED_AT = 20
"""How many sessions with the same opening are looked at, the newest first."""
RECENT = 60
"""How many events of a log are looked at first: a conversation that simply goes on is known by its end."""
RETRIED_WITHIN = timedelta(minutes=2)
"""How long after its end an answer is still the one that a repeated request wants: clients repeat within seconds."""


class ConversationRequest(NamedTuple):
    """A request that tells the conversation: its past turns, and the new message.

    instructions: what the caller wants beside it. user: whom the request names; None = the caller. session: which session it
    is, if that is said. agent: who is to answer, past all selectors. repeated: the client sent it before, and got no answer.
    key: the client's own name for the request, the same when it is sent again. id: the message's own, in a session that is
    named.
    """

    past: Sequence[PastTurn]
    message: Content
    instructions: DataPart | None = None
    user: str | None = None
    session: str | None = None
    agent: str | None = None
    context: MessageContext = NO_CONTEXT
    config: RunConfig | None = None
    repeated: bool = False
    key: str | None = None
    id: str | None = None


class _Place(NamedTuple):
    """Where a message belongs: the session, and the message's id there."""

    session: str
    message_id: str


class Conversations:
    """What can be done with whole conversations by callers. All of it raises Forbidden, and what the runner raises."""

    def __init__(self, runner: Runner, whose: SessionScope, messages: Messages, issuer: Issuer | None = None) -> None:
        self._runner, self._whose, self._messages = runner, whose, messages
        self._issuer = issuer or SystemIssuer()
        self._refused = RefusedRequests()
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def send(self, caller: Caller, talk: ConversationRequest) -> Invocation:
        """`Messages.start` in the session whose log is the conversation so far.

        A log that goes on otherwise is copied up to there; turns that are in no log are put on record first, without what
        calls gave if the caller is not to say that. A request that is repeated gets the answer that was begun before.
        UnknownToolCall for results that nobody waits for.
        """
        user = self._whose.user(caller, "messages:write", talk.user)
        base = session_base(talk.past, talk.message) if talk.session is None else talk.session
        ids = message_ids(talk.past, talk.message)
        asked = user, base, ids[-1]
        if not may_report_late_results(caller):
            talk = talk._replace(past=tuple(map(without_results, talk.past)))
        if talk.repeated and self._refused.take(asked):
            talk = talk._replace(repeated=False)
        # Two requests at once must not find each other's place free.
        async with self._locks.setdefault((user, base), asyncio.Lock()):
            find = self._found if talk.session is None else self._named
            try:
                place = await find(self._runner.key(user, base), talk, ids)
                content = await self._content(self._runner.key(user, place.session), talk)
                ask = MessageRequest(place.session, content, user, place.message_id, talk.context, talk.config, talk.agent)
                return await self._messages.start(caller, ask)
            except TurnwiseError:
                self._refused.add(asked)
                raise

    async def open_calls(self, invocation: Invocation, result: Result) -> Sequence[AwaitedCall]:
        """The calls whose results that invocation awaits from outside, whoever is to give them."""
        if not result.waiting:
            return ()
        return open_calls(await self._runner.sessions.events(invocation.session, invocation_id=result.invocation_id))

    async def _named(self, key: SessionKey, talk: ConversationRequest, ids: Sequence[str]) -> _Place:
        """The place in the session that the request names: behind all that is there, whatever the request tells of before."""
        session = await self._runner.store.open(key)
        if talk.message.tool_results:
            return _Place(key.id, talk.id or message_ids((), talk.message)[0])
        may_make = (talk.config or self._runner.config).create_session
        while talk.past and (may_make if session is None else not session.last_sequence):
            with suppress(SessionExists, SessionBusy, StaleWriter):  # another process was first
                session = await self._bring(key, talk, ids)
                break
            session = await self._runner.store.open(key)
        if talk.id is not None:
            return _Place(key.id, talk.id)
        if talk.key is not None:
            return _Place(key.id, _keyed(ids[-1], talk.key))
        turns = session.head.turns if session else 0
        numbered = [f"{ids[-1]}-{number}" for number in (turns, turns - 1)]
        for id_ in numbered if talk.repeated else ():
            if await self._is_recent(key, id_):
                return _Place(key.id, id_)
        return _Place(key.id, await self._free(key, numbered[0]))

    async def _found(self, base: SessionKey, talk: ConversationRequest, ids: Sequence[str]) -> _Place:
        newest = await self._newest(base)
        id_ = ids[-1] if talk.key is None else _keyed(ids[-1], talk.key)
        begins = not (talk.past or talk.repeated or talk.key or talk.message.tool_results)
        sessions = [] if begins else await self._opened(base, newest)
        if (again := await self._again(sessions, id_, talk)) is not None:
            return again
        session, found = await self._best(sessions, ids, talk)
        whole = session is not None and found == Match(len(talk.past))
        if talk.message.tool_results and not whole:
            raise UnknownToolCall(
                "Nobody waits for the results of these calls in this conversation.",
                fix="Send them once, behind the messages that led to the calls, as they came.",
            )
        if not talk.past:
            return _Place(_numbered(base, newest + 1).id, id_)
        if session is None:
            return _Place((await self._moved(base, newest, talk, ids)).id, id_)
        key = session.key if found.before is None else await self._fork(session, found.before, base, newest)
        if found.turns < len(talk.past):
            try:
                await self._bring(key, talk, ids, found.turns)
            except (SessionBusy, StaleWriter):  # it is being gone on with otherwise
                return _Place((await self._moved(base, newest, talk, ids)).id, id_)
        return _Place(key.id, await self._free(key, id_) if whole else id_)

    async def _again(self, sessions: Sequence[Session], id_: str, talk: ConversationRequest) -> _Place | None:
        """Where this very request was begun before, if it was: what a call gave is sent once, and so is what has a key."""
        for session in sessions if talk.repeated else ():
            if await self._is_recent(session.key, id_):
                return _Place(session.id, id_)
        if talk.key is not None or talk.message.tool_results:
            for session in sessions:
                if not await self._is_free(session.key, id_):
                    return _Place(session.id, id_)
        return None

    async def _best(
        self, sessions: Sequence[Session], ids: Sequence[str], talk: ConversationRequest
    ) -> tuple[Session | None, Match]:
        """The session that has most of the conversation, and how much."""
        best: tuple[Session | None, Match] = (None, Match())
        whole, sent = Match(len(talk.past)), sum(bool(turn.sent.parts) for turn in talk.past)
        for session in sorted(sessions if talk.past else (), key=lambda each: each.head.turns != sent):
            for last in (RECENT, None):
                found = match(talk.past, ids, moments_in(await self._runner.sessions.events(session.key, last=last)), session)
                if found == whole:
                    return session, found
            if found.turns > best[1].turns:
                best = session, found
        return best

    async def _content(self, key: SessionKey, talk: ConversationRequest) -> Content:
        """The message, with the instructions unless they came with a message just before: whoever reads it knows them."""
        content, told = talk.message, talk.instructions
        says = any(not isinstance(part, TextPart) or part.text.strip() for part in content.parts)
        if told is None or not says or content.tool_results:
            return content
        recent = await self._runner.sessions.events(key, last=RECENT)
        if any(event.author == USER and event.content and told in event.content.parts for event in recent):
            return content
        return content.model_copy(update={"parts": (told, *content.parts)})

    async def _moved(self, base: SessionKey, newest: int, talk: ConversationRequest, ids: Sequence[str]) -> SessionKey:
        """A new session with a conversation that was had elsewhere."""
        while True:
            newest += 1
            with suppress(SessionExists):
                return (await self._bring(_numbered(base, newest), talk, ids, new=True)).key

    async def _fork(self, session: Session, before: str, base: SessionKey, newest: int) -> SessionKey:
        """A copy of that session up to before that invocation."""
        while True:
            newest += 1
            with suppress(SessionExists):
                copy = await self._runner.sessions.fork(session.key, _numbered(base, newest).id, before_invocation=before)
                return copy.key

    async def _bring(
        self, key: SessionKey, talk: ConversationRequest, ids: Sequence[str], begin: int = 0, *, new: bool = False
    ) -> Session:
        past = list(past_exchanges(talk.past[begin:], ids[begin:]))
        return await self._runner.sessions.bring(key, past, author=talk.agent, new=new)

    async def _opened(self, base: SessionKey, newest: int) -> list[Session]:
        numbers = range(newest, max(newest - LOOKED_AT, 0), -1)
        opened = [await self._runner.store.open(_numbered(base, number)) for number in numbers]
        return [session for session in opened if session is not None]

    async def _newest(self, base: SessionKey) -> int:
        """The highest number of a session with that opening; 0 = there is none. Where some were deleted it may be lower."""
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
        """Whether that message is being answered, or was just now."""
        try:
            reading = await self._runner.sessions.reading(key, message_id=message_id)
        except SessionError:
            return False
        if reading.state == "running" or reading.result is None:
            return True
        return self._issuer.now() - reading.result.events[-1].created_at <= RETRIED_WITHIN

    async def _is_free(self, key: SessionKey, message_id: str) -> bool:
        return await self._runner.store.inbox.receipt(key, message_id) is None

    async def _free(self, key: SessionKey, message_id: str) -> str:
        """The id, or another if a message that was taken back has it."""
        free = await self._is_free(key, message_id)
        return message_id if free else f"{message_id}-{self._issuer.new_id('again')}"


def _numbered(base: SessionKey, number: int) -> SessionKey:
    return base._replace(id=f"{base.id}-{number}")


def _keyed(message_id: str, key: str) -> str:
    return f"{message_id}-{sha256(key.encode(errors='replace')).hexdigest()[:16]}"
