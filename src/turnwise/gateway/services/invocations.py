"""Invocations and tasks: status, cancellation, and answers to open waits."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from types import MappingProxyType
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import Content, Part, TextPart, ToolResultPart
from turnwise.facts.errors import InvocationMissing, RequestInvalid, SessionError, UnknownToolCall
from turnwise.facts.events import LIMIT
from turnwise.facts.ids import ID_CHARACTERS
from turnwise.facts.messages import MessageContext
from turnwise.facts.sessions import SessionKey
from turnwise.facts.waits import Wait, open_waits, waits_of
from turnwise.gateway.services.background import BackgroundTasks
from turnwise.gateway.services.messages import MessageRequest, Messages
from turnwise.gateway.services.session_admission import SessionScope
from turnwise.ports.decisions import InvocationInfo
from turnwise.runner import Invocation, InvocationStatus, Result, Runner
from turnwise.runner.record.events import origin_of

Step = Callable[[], Awaitable[Invocation]]
"""Sends one message."""


class WaitAnswer(NamedTuple):
    """The answer to an open wait."""

    call_id: str
    """The id of the wait."""
    answer: str | ToolResultPart | bool
    """A reply's text, a tool's result, or whether a call is approved."""
    reason: str = ""
    """The reason for an approval or a rejection."""
    id: str | None = None
    """The message's id; None to derive it from the wait."""
    state: Mapping[str, JsonValue] = MappingProxyType({})
    """State to write with the answer."""


class Invocations:
    """Reads, cancels and continues invocations with the caller's rights.

    All methods raise Forbidden and the runner's
    errors.
    """

    def __init__(self, runner: Runner, scope: SessionScope, messages: Messages, tasks: BackgroundTasks) -> None:
        self._runner, self._scope, self._messages, self._tasks = runner, scope, messages, tasks

    async def now(self, session: str, invocation_id: str) -> InvocationStatus:
        """Returns the recorded status of an invocation.

        Raises:
            SessionMissing: There is no such session.
            InvocationMissing: There is no such invocation.
        """
        key = self._scope.session("sessions:read", session)
        return await self._runner.sessions.reading(key, invocation_id=invocation_id)

    async def message_status(self, session: str, message_id: str) -> InvocationStatus:
        """Returns the recorded status of a message.

        Raises:
            SessionMissing: There is no such session.
            InvocationMissing: There is no such message.
            SessionError: The message was refused.
        """
        key = self._scope.session("sessions:read", session)
        return await self._runner.sessions.reading(key, message_id=message_id)

    async def cancel(self, session: str, invocation_id: str, *, wait: bool = True) -> InvocationStatus:
        """Cancels an invocation in whichever process it runs, and returns its status. Does nothing if it has ended.

        Args:
            session: The session's id.
            invocation_id: The invocation's id.
            wait: Whether to return only when it has ended. If False, the status may still be `running`.

        Raises:
            SessionMissing: There is no such session.
            InvocationMissing: There is no such invocation.
        """
        key = self._scope.session("invocations:cancel", session)
        reading = await self._runner.sessions.reading(key, invocation_id=invocation_id)
        if reading.state == "ended":
            return reading
        stopping = self._tasks.start(self._runner.sessions.cancel(key, invocation_id))
        if wait:
            # A caller that disconnects must not undo the cancellation.
            await asyncio.shield(stopping)
        return await self._runner.sessions.reading(key, invocation_id=invocation_id)

    async def answer(self, session: str, invocation_id: str, given: WaitAnswer) -> Invocation:
        """Answers an open wait with a user message. Idempotent: a repeated answer is the same message.

        Raises:
            UnknownToolCall: The invocation does not have this wait, or no longer.
            RequestInvalid: The answer's kind does not fit the wait.
        """
        key = self._scope.session("messages:write", session)
        message_id = given.id or _message_id(invocation_id, given.call_id)
        head = (await self._runner.sessions.get(key)).head
        waits = [wait for wait in waits_of(head) if (wait.invocation_id, wait.id) == (invocation_id, given.call_id)]
        if not waits:
            return await self._earlier_answer(key, message_id, given.call_id)
        content = _content(waits[0], given)
        answers = given.call_id if waits[0].kind == "reply" else None
        context = MessageContext(answers=answers, state=dict(given.state))
        return await self._messages.start(MessageRequest(session, content, message_id, context))

    def run_in_order(self, first: Invocation, steps: Sequence[Step]) -> list[asyncio.Task[Invocation]]:
        """Starts tasks that send the messages one after the other, each when the previous one is answered or waits.

        The tasks continue if the caller disconnects. An error of one task is raised by all later ones, too.
        """
        tasks: list[asyncio.Task[Invocation]] = []
        for step in steps:
            tasks.append(self._tasks.start(_run_after(tasks[-1] if tasks else first, step)))
        return tasks

    async def wait_for(self, session: str, call_id: str) -> Wait | None:
        """Returns the session's open wait with this id; None if it is not open. Needs the permission to answer it.

        Raises:
            SessionMissing: There is no such session.
        """
        key = self._scope.session("messages:write", session)
        head = (await self._runner.sessions.get(key)).head
        return next((wait for wait in waits_of(head) if wait.id == call_id), None)

    async def waits(self, invocation: Invocation, result: Result) -> Sequence[Wait]:
        """Returns all open waits of the result's invocation, oldest first, including those of its earlier messages."""
        if not result.waiting:
            return ()
        return open_waits(await self._runner.sessions.events(invocation.session, invocation_id=result.invocation_id))

    async def _earlier_answer(self, key: SessionKey, message_id: str, call_id: str) -> Invocation:
        """Returns the invocation of an answer that was sent before with this id. Raises UnknownToolCall without one."""
        try:
            return await self._runner.attach(user=key.user, session=key.id, message_id=message_id)
        except InvocationMissing:
            raise UnknownToolCall(
                f"The invocation does not wait for {call_id[:ID_CHARACTERS]!r}.", fix="See what it waits for: its `waits`."
            ) from None


async def _run_after(before: "Invocation | asyncio.Task[Invocation]", step: Step) -> Invocation:
    await (before if isinstance(before, Invocation) else await before).result()
    return await step()


def _content(wait: Wait, given: WaitAnswer) -> Content:
    """Returns the message that answers the wait. Raises RequestInvalid for an answer of another kind."""
    answer = given.answer
    part: Part | None = None
    if wait.kind == "reply" and isinstance(answer, str):
        part = TextPart(text=answer)
    elif wait.kind == "confirmation" and isinstance(answer, bool):
        word: dict[str, JsonValue] = {"approved": answer} | ({"reason": given.reason} if given.reason else {})
        part = ToolResultPart(call_id=wait.id, tool=wait.tool, result=word)
    elif wait.kind != "reply" and isinstance(answer, ToolResultPart):
        part = answer.replace(tool=wait.tool)
    if part is None:
        fields = {"reply": "text", "confirmation": "approved", "tool_result": "result"}
        wanted = fields[wait.kind]
        raise RequestInvalid(f"It waits for a {wait.kind}.", fix=f"Send the field {wanted!r}.", where=("body", wanted))
    return Content(role="user", parts=(part,))


def _message_id(invocation_id: str, call_id: str) -> str:
    """Returns the default id of the message that answers the call. It is derived, so that a call is answered once."""
    id_ = f"answer:{invocation_id}:{call_id}"
    return id_ if len(id_) <= ID_CHARACTERS else f"answer:{sha256(id_.encode(errors='replace')).hexdigest()}"


class Task(NamedTuple):
    """An invocation, named by the message that started it."""

    session: str
    message_id: str
    invocation_id: str
    state: str
    """`running`, `waiting`, or the reason of the end."""
    changed_at: datetime
    """When the state last changed."""


class TaskPage(NamedTuple):
    """One page of tasks."""

    items: tuple[Task, ...]
    next: str | None
    """The cursor of the next page; None on the last page."""
    total: int
    """The number of tasks on all pages."""


class Tasks:
    """Lists the invocations of a user.

    All methods raise Forbidden and the store's
    errors.
    """

    def __init__(self, runner: Runner, scope: SessionScope) -> None:
        self._runner, self._scope = runner, scope

    async def page(
        self,
        *,
        session: str | None = None,
        states: Sequence[str] | None = None,
        since: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> TaskPage:
        """Returns one page of a user's tasks, the most recently changed first. Queued and rewound messages are not
        tasks.

        The state of an invocation that an older version wrote is read from its log. Such a page may have fewer than
        `limit` items although more follow, and `total` may be too high.

        Args:
            session: Only tasks of this session.
            states: Only tasks with one of these states; `limit:` stands for any limit.
            since: Only tasks that changed at this time or later.
            after: The cursor of the previous page.
            limit: The maximum number of tasks.

        Raises:
            CursorInvalid: `after` is not a cursor.
        """
        decisions, app = self._runner.store.decisions, self._runner.app
        named = self._scope.user("sessions:read")
        key = None if session is None else self._scope.session("sessions:read", session)
        found = await decisions.invocations(app, user=named, key=key, states=states, since=since, after=after, limit=limit)
        total = await decisions.count_invocations(app, user=named, key=key, states=states, since=since)
        known = await asyncio.gather(*map(self._state, found.items))
        rows = (
            _task(info, state)
            for info, state in zip(found.items, known, strict=True)
            if state and _matches_states(state, states)
        )
        return TaskPage(tuple(rows), found.next, total)

    async def _state(self, info: InvocationInfo) -> str | None:
        """Returns the invocation's state, read from the log if it is not indexed; None if it was rewound or deleted
        meanwhile.
        """
        if info.state is not None:
            return info.state
        try:
            reading = await self._runner.sessions.reading(info.key, invocation_id=info.invocation_id)
        except SessionError:
            return None
        if reading.state != "ended":
            return reading.state
        return reading.result.end.reason if reading.result and reading.result.end else None


def _matches_states(state: str, states: Sequence[str] | None) -> bool:
    return states is None or state in states or (LIMIT in states and state.startswith(LIMIT))


def _task(info: InvocationInfo, state: str) -> Task:
    return Task(info.key.id, origin_of(info.event_id).message, info.invocation_id, state, info.changed_at)
