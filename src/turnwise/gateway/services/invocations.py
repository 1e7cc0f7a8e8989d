"""Invocations: looked at, stopped, and gone on with."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.facts.callers import Caller
from turnwise.facts.content import Content, Part, TextPart, ToolResultPart
from turnwise.facts.errors import InvocationMissing, RequestInvalid, SessionError, TurnwiseError, UnknownToolCall
from turnwise.facts.events import LIMIT
from turnwise.facts.ids import ID_CHARACTERS
from turnwise.facts.messages import MessageContext
from turnwise.facts.sessions import SessionKey
from turnwise.gateway.services.messages import MessageRequest, Messages
from turnwise.gateway.services.session_scope import SessionScope
from turnwise.gateway.services.waits import Wait, waits_of
from turnwise.gateway.shared.waits import OpenWait, open_waits
from turnwise.ports.stores import InvocationInfo
from turnwise.runner import Invocation, InvocationStatus, Result, Runner
from turnwise.runner.record.events import origin_of

Step = Callable[[], Awaitable[Invocation]]
"""Hands in a message."""


class WaitAnswer(NamedTuple):
    """What a wait is answered with: a text, a tool's result, or a person's word. id: the sender's own of that message. state:
    what is written with it.
    """

    call_id: str
    answer: str | ToolResultPart | bool
    reason: str = ""
    id: str | None = None
    state: Mapping[str, JsonValue] = MappingProxyType({})


class Invocations:
    """What callers can do with invocations. All of it raises Forbidden, and what the runner raises.

    user: whom the request names; None = the caller.
    """

    def __init__(self, runner: Runner, whose: SessionScope, messages: Messages) -> None:
        self._runner, self._whose, self._messages = runner, whose, messages
        self._going_on: set[asyncio.Task[Any]] = set()

    async def now(self, caller: Caller, session: str, invocation_id: str, user: str | None = None) -> InvocationStatus:
        """What is on record of it. SessionMissing, InvocationMissing."""
        key = self._whose.session(caller, "sessions:read", session, user)
        return await self._runner.sessions.reading(key, invocation_id=invocation_id)

    async def message_now(self, caller: Caller, session: str, message_id: str, user: str | None = None) -> InvocationStatus:
        """What is on record of that message. SessionMissing, InvocationMissing; SessionError when it was refused."""
        key = self._whose.session(caller, "sessions:read", session, user)
        return await self._runner.sessions.reading(key, message_id=message_id)

    async def cancel(
        self, caller: Caller, session: str, invocation_id: str, user: str | None = None, *, wait: bool = True
    ) -> InvocationStatus:
        """Stops it, wherever it runs, and gives what is on record then; without `wait` it may not have stopped yet.

        Nothing happens when it has ended. SessionMissing, InvocationMissing.
        """
        key = self._whose.session(caller, "invocations:cancel", session, user)
        reading = await self._runner.sessions.reading(key, invocation_id=invocation_id)
        if reading.state == "ended":
            return reading
        stopping = asyncio.create_task(self._runner.sessions.cancel(key, invocation_id))
        self._keep(stopping)
        if wait:
            # Whoever leaves does not take back that it is to be stopped.
            await asyncio.shield(stopping)
        return await self._runner.sessions.reading(key, invocation_id=invocation_id)

    async def answer(
        self, caller: Caller, session: str, invocation_id: str, given: WaitAnswer, user: str | None = None
    ) -> Invocation:
        """Answers what the invocation waits for, as a message of the user's; the same again is the same message.

        UnknownToolCall when it does not wait for that (any more), RequestInvalid for an answer of the wrong kind.
        """
        key = self._whose.session(caller, "messages:write", session, user)
        message_id = given.id or _message_id(invocation_id, given.call_id)
        head = (await self._runner.sessions.get(key)).head
        waits = [wait for wait in waits_of(head) if (wait.invocation_id, wait.call_id) == (invocation_id, given.call_id)]
        if not waits:
            return await self._answered_before(key, message_id, given.call_id)
        content = _content(waits[0], given)
        answers = given.call_id if waits[0].kind == "reply" else None
        context = MessageContext(answers=answers, state=dict(given.state))
        return await self._messages.start(caller, MessageRequest(session, content, user, message_id, context))

    def in_turn(self, first: Invocation, steps: Sequence[Step]) -> list[asyncio.Task[Invocation]]:
        """Hands in each of these messages when the one before it is answered, or waits; whoever leaves does not stop that.

        What one of them raises, those behind it raise, too.
        """
        tasks: list[asyncio.Task[Invocation]] = []
        for step in steps:
            tasks.append(asyncio.create_task(_behind(tasks[-1] if tasks else first, step)))
            self._keep(tasks[-1])
        return tasks

    async def wait_for(self, caller: Caller, session: str, call_id: str, user: str | None = None) -> Wait | None:
        """What the session waits for under that id, for who is about to answer it; None when it does not (any more).

        SessionMissing.
        """
        key = self._whose.session(caller, "messages:write", session, user)
        head = (await self._runner.sessions.get(key)).head
        return next((wait for wait in waits_of(head) if wait.call_id == call_id), None)

    async def waits(self, invocation: Invocation, result: Result) -> list[OpenWait]:
        """All that this answer's invocation waits for, oldest first, also what messages before it led to."""
        if not result.waiting:
            return []
        return open_waits(await self._runner.sessions.events(invocation.session, invocation_id=result.invocation_id))

    def _keep(self, task: "asyncio.Task[Any]") -> None:
        """Until it is done, also when nobody waits for it."""
        self._going_on.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._going_on.discard(task)
        with suppress(asyncio.CancelledError, TurnwiseError):
            task.result()

    async def _answered_before(self, key: SessionKey, message_id: str, call_id: str) -> Invocation:
        try:
            return await self._runner.attach(user=key.user, session=key.id, message_id=message_id)
        except InvocationMissing:
            raise UnknownToolCall(
                f"The invocation does not wait for {call_id[:ID_CHARACTERS]!r}.", fix="See what it waits for: its `waits`."
            ) from None


async def _behind(before: "Invocation | asyncio.Task[Invocation]", step: Step) -> Invocation:
    await (before if isinstance(before, Invocation) else await before).result()
    return await step()


def _content(wait: Wait, given: WaitAnswer) -> Content:
    """The message that answers that wait."""
    answer = given.answer
    part: Part | None = None
    if wait.kind == "reply" and isinstance(answer, str):
        part = TextPart(text=answer)
    elif wait.kind == "confirmation" and isinstance(answer, bool):
        word: dict[str, JsonValue] = {"approved": answer} | ({"reason": given.reason} if given.reason else {})
        part = ToolResultPart(call_id=wait.call_id, tool=wait.tool, result=word)
    elif wait.kind != "reply" and isinstance(answer, ToolResultPart):
        part = answer.model_copy(update={"tool": wait.tool})
    if part is None:
        fields = {"reply": "text", "confirmation": "approved", "tool_result": "result"}
        wanted = fields[wait.kind]
        raise RequestInvalid(f"It waits for a {wait.kind}.", fix=f"Send the field {wanted!r}.", where=("body", wanted))
    return Content(role="user", parts=(part,))


def _message_id(invocation_id: str, call_id: str) -> str:
    """The id of the message that answers that call, unless its sender has one: a call is answered once."""
    id_ = f"answer:{invocation_id}:{call_id}"
    return id_ if len(id_) <= ID_CHARACTERS else f"answer:{sha256(id_.encode(errors='replace')).hexdigest()}"


class Task(NamedTuple):
    """An invocation by the message that began it. state: `running`, `waiting`, or why it ended. changed_at: since when."""

    session: str
    message_id: str
    invocation_id: str
    state: str
    changed_at: datetime


class TaskPage(NamedTuple):
    """A page of them. next: the cursor of the next; None at the end. total: how many all pages hold."""

    items: tuple[Task, ...]
    next: str | None
    total: int


class Tasks:
    """What callers have going. All of it raises Forbidden, and what the store raises.

    user: whom the request names; None = the caller.
    """

    def __init__(self, runner: Runner, whose: SessionScope) -> None:
        self._runner, self._whose = runner, whose

    async def page(
        self,
        caller: Caller,
        *,
        user: str | None = None,
        session: str | None = None,
        states: Sequence[str] | None = None,
        since: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> TaskPage:
        """One user's tasks, of one session of his if it is named, the one that changed last first. What waits in an inbox is
        none yet; what was taken back is none any more.

        states: only those; `limit:` = any limit. since: only what changed then or later. What an older version wrote is looked
        up in its log: a page may then hold fewer than `limit` though there are more, `total` may be too high. CursorInvalid.
        """
        decisions, app = self._runner.store.decisions, self._runner.app
        named = self._whose.user(caller, "sessions:read", user)
        key = None if session is None else self._whose.session(caller, "sessions:read", session, user)
        found = await decisions.invocations(app, user=named, key=key, states=states, since=since, after=after, limit=limit)
        total = await decisions.count_invocations(app, user=named, key=key, states=states, since=since)
        known = await asyncio.gather(*map(self._state, found.items))
        told = (
            _task(info, state) for info, state in zip(found.items, known, strict=True) if state and _is_among(state, states)
        )
        return TaskPage(tuple(told), found.next, total)

    async def _state(self, info: InvocationInfo) -> str | None:
        """How it stands, looked up if it is not known; None when it was taken back or deleted meanwhile."""
        if info.state is not None:
            return info.state
        try:
            reading = await self._runner.sessions.reading(info.key, invocation_id=info.invocation_id)
        except SessionError:
            return None
        if reading.state != "ended":
            return reading.state
        return reading.result.end.reason if reading.result and reading.result.end else None


def _is_among(state: str, states: Sequence[str] | None) -> bool:
    return states is None or state in states or (LIMIT in states and state.startswith(LIMIT))


def _task(info: InvocationInfo, state: str) -> Task:
    return Task(info.key.id, origin_of(info.event_id).message, info.invocation_id, state, info.changed_at)
