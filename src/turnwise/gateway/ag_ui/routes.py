"""`POST /ag-ui`: a run. What is sent is RunAgentInput, what comes are the run's events."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.sse import EventSourceResponse

from turnwise.facts.callers import Caller
from turnwise.facts.errors import Closing, RequestInvalid, TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.sessions import Session
from turnwise.gateway.ag_ui.client_messages import (
    ClientMessages,
    ClientState,
    client_state,
    client_state_from_events,
    messages_in,
    restored_messages,
)
from turnwise.gateway.ag_ui.errors import error_of
from turnwise.gateway.ag_ui.interrupts import interrupts_of, waits_for_person
from turnwise.gateway.ag_ui.schema import VERSION, RunBody, Wire, custom, event, sse_event
from turnwise.gateway.ag_ui.speakers import TurnSteps
from turnwise.gateway.ag_ui.start import RunRequest, session_now, start_run
from turnwise.gateway.ag_ui.state import ClientStateMirror
from turnwise.gateway.ag_ui.stream import RunEvents, is_failed, is_stopped, outcome_of, usage_of
from turnwise.gateway.front import Front, TheCaller, TheFront, redactor_of
from turnwise.gateway.problems import Problem, problem_of, request_id_of, status_of
from turnwise.gateway.services.sessions import Window
from turnwise.gateway.services.waits import Wait, waits_of
from turnwise.gateway.shared.parameters import User
from turnwise.gateway.shared.utterances import DecisionInfo, failure_text
from turnwise.gateway.sse import event_stream
from turnwise.runner import Invocation, Result

LOOKED_AT = 1_000
"""How many events of a log are read for what it is asked: the newest."""


class RunStream:
    """Tells one run to one reader, who can leave at any time: what he asked for goes on."""

    def __init__(self, front: Front, request: Request, caller: Caller, body: RunBody, asked: RunRequest) -> None:
        self._front, self._request, self._caller, self._body, self._asked = front, request, caller, body, asked
        self._view = redactor_of(request)
        self._held = client_state(body.messages)
        self._mirror = ClientStateMirror(self._view.state(asked.session) if asked.session else {})
        self._narration = self._narrating(self._held)
        self._events: list[Event] = []

    async def wires(self) -> AsyncIterator[Wire]:
        """The events of the wire."""
        asked = self._asked
        identity = {"threadId": asked.key.id, "runId": asked.run}
        parent = self._body.parent_run_id
        yield event("RUN_STARTED", **identity, protocolVersion=VERSION, parentRunId=parent)
        yield self._mirror.whole()
        for wire in self._ignored():
            yield wire
        try:
            if asked.again:
                there = restored_messages(self._held.wires(), await self._messages())
                self._narration = self._narrating(client_state_from_events(there))
                yield event("MESSAGES_SNAPSHOT", messages=there)
            last: Invocation | None = None
            async for last in self._invocations():
                async for wire in self._said(last):
                    yield wire
                self._events += (await last.result()).events
            for wire in await self._end(last, identity):
                yield wire
        except TurnwiseError as error:
            yield error_of(problem_of(error, self._request))

    def _narrating(self, held: ClientState) -> RunEvents:
        speakers = TurnSteps(self._described, announced=self._body.protocol_version is not None)
        return RunEvents(self._view, speakers, ClientMessages(held), self._mirror)

    def closing(self) -> Wire:
        """That this process is being stopped: whoever is there then tells the rest."""
        closing = Closing("This process is being stopped.", fix="Run it again under the same runId.")
        return error_of(problem_of(closing, self._request))

    def _ignored(self) -> Iterable[Wire]:
        if self._asked.unknown:
            yield custom("ignored", {"reason": "Nobody waits for it.", "ids": list(self._asked.unknown)})
        if self._asked.skipped:
            places = [".".join(map(str, place)) for place in self._asked.skipped]
            yield custom("ignored", {"reason": "Nothing is fetched from elsewhere.", "places": places})

    async def _invocations(self) -> AsyncIterator[Invocation]:
        if self._asked.first is not None:
            yield self._asked.first
        for coming in self._asked.rest:
            yield await asyncio.shield(coming)

    async def _said(self, invocation: Invocation) -> AsyncIterator[Wire]:
        first = True
        async for said in invocation.events():
            if first and _goes_on(said):
                log = await self._log(said.invocation_id)
                self._narration.know(each for each in log if (each.sequence or 0) < (said.sequence or 0))
            first = False
            for wire in self._narration.tell(said):
                yield wire

    async def _end(self, last: Invocation | None, identity: dict[str, Any]) -> list[Wire]:
        """last: the message whose answer was told last; None = none was."""
        result, usage = None if last is None else await last.result(), usage_of(self._events)
        if result is not None and is_failed(result):
            return [{**error_of(self._failure(result)), **({} if usage is None else {"usage": usage})}]
        stopped = result is not None and is_stopped(result)
        session = await session_now(self._front, self._caller, self._asked.key)
        asking = [] if session is None or stopped else await self._interrupts(session)
        wires = [*self._narration.close(), *self._narration.speakers.close(_who_waits(asking))]
        if session is not None:
            wires += self._mirror.become(self._view.state(session))
        if session is not None and result is None:
            wires.append(event("MESSAGES_SNAPSHOT", messages=restored_messages(self._held.wires(), await self._messages())))
        if stopped and result is not None and result.end is not None:
            wires.append(custom("end", self._view.end(result.end).model_dump(mode="json")))
        outcome = outcome_of(result, asking, self._narration.pending)
        behind = None if last is None or result is None or stopped else await self._behind(last, result)
        return [*wires, event("RUN_FINISHED", **identity, outcome=outcome, result=behind, usage=usage)]

    async def _interrupts(self, session: Session) -> list[Wire]:
        """What waits for a person now, in this run or from before."""
        waits = waits_for_person(waits_of(session.head), questions=self._asked.questions)
        found: list[Wire] = []
        for invocation_id in dict.fromkeys(wait.invocation_id for wait in waits):
            mine: list[Wait] = [wait for wait in waits if wait.invocation_id == invocation_id]
            for interrupt, asking in interrupts_of(mine, await self._log(invocation_id), self._view):
                tag = self._narration.speakers.tag(asking)
                found.append({**interrupt, "subagentRunId": tag} if self._narration.speakers.is_open(tag) else interrupt)
        return found

    async def _log(self, invocation_id: str | None = None) -> Sequence[Event]:
        window = Window(last=LOOKED_AT, invocation_id=invocation_id)
        key = self._asked.key
        return (await self._front.sessions.events(self._caller, key.id, window, key.user)).events

    async def _messages(self) -> list[Wire]:
        return messages_in(await self._log(), self._view)

    async def _behind(self, last: Invocation, result: Result) -> dict[str, Any]:
        """Where it is on record."""
        calls = await self._front.conversations.open_calls(last, result)
        where = DecisionInfo(session_id=self._asked.key.id, message_id=last.message_id)
        pending = any(each.kind == "late" for each in calls)
        return where.known(result.invocation_id, result.selection, self._view, pending=pending).model_dump(mode="json")

    def _failure(self, result: Result) -> Problem:
        reason = result.end.reason if result.end else ""
        code = result.error.code if result.error else reason
        told = failure_text(reason, result.error, self._view)
        return Problem(status_of(code), code, told, "", (), request_id_of(self._request), {})

    def _described(self, agent: str) -> str | None:
        tree = self._front.runner.tree
        return tree.card(agent).description or None if agent in tree and self._view.reaches(agent) else None


def _goes_on(said: Event) -> bool:
    """Whether the message goes on with an invocation that waited."""
    return said.actions.answers is not None or bool(said.content and said.content.tool_results)


def _who_waits(interrupts: Iterable[Wire]) -> dict[str, list[str]]:
    """The interrupts of each of those that were announced."""
    waiting: dict[str, list[str]] = {}
    for interrupt in interrupts:
        if "subagentRunId" in interrupt:
            waiting.setdefault(interrupt["subagentRunId"], []).append(interrupt["id"])
    return waiting


TYPES = ("text/event-stream", "text/*", "*/*", "application/json")

# The shapes are the protocol's own, and described there.
router = APIRouter(include_in_schema=False)


@router.post("")
@router.post("/")
async def run(body: RunBody, request: Request, front: TheFront, caller: TheCaller, user: User = None) -> EventSourceResponse:
    """Whatever happens to this connection, the run goes on."""
    _check_accepted(request)
    asked = await start_run(front, caller, body, user, redactor_of(request))
    telling = RunStream(front, request, caller, body, asked)
    ping = front.config.stream_ping_seconds
    return event_stream(telling.wires(), sse_event, ping=ping, closing=front.closing, hint=lambda: sse_event(telling.closing()))


def _check_accepted(request: Request) -> None:
    accepted = [kind.partition(";")[0].strip().lower() for kind in request.headers.get("accept", "*/*").split(",")]
    if not any(kind in TYPES for kind in accepted):
        problem = "The events of a run come as server-sent events, and not as what is accepted."
        raise RequestInvalid(problem, fix="Accept text/event-stream.", where=("header", "accept"))
