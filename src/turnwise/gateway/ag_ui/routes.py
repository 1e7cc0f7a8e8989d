"""The route `POST /ag-ui`: takes RunAgentInput and streams the run's events."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.sse import EventSourceResponse

from turnwise.facts.errors import Closing, RequestInvalid, TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.sessions import Session
from turnwise.facts.waits import is_late, open_waits, waits_of
from turnwise.gateway.ag_ui.interrupts import interrupts_of, waits_for_person
from turnwise.gateway.ag_ui.messages import (
    ClientMessages,
    ClientState,
    client_state,
    client_state_from_events,
    messages_in,
    restored_messages,
)
from turnwise.gateway.ag_ui.schema import VERSION, ClientStateMirror, RunBody, Wire, custom_event, error_of, event, sse_event
from turnwise.gateway.ag_ui.start import RunRequest, current_session, start_run
from turnwise.gateway.ag_ui.stream import RunEvents, TurnSteps, is_failed, is_stopped, outcome_of, usage_of
from turnwise.gateway.front import Front, TheFront, UserServices, redactor_of
from turnwise.gateway.problems import Problem, problem_of, request_id_of, status_of
from turnwise.gateway.services import Services
from turnwise.gateway.services.sessions import Window
from turnwise.gateway.shared.stream import DecisionInfo, failure_text
from turnwise.gateway.sse import event_stream
from turnwise.runner import Invocation, Result

MOST_EVENTS_READ = 1_000
"""Number of newest events read from a log."""
ACCEPTED_TYPES = ("text/event-stream", "text/*", "*/*", "application/json")


class RunStream:
    """Streams one run to one reader. The run continues if the reader disconnects."""

    def __init__(self, front: Front, request: Request, services: Services, body: RunBody, run_request: RunRequest) -> None:
        self._front, self._request, self._services, self._body, self._run_request = front, request, services, body, run_request
        self._view = redactor_of(request)
        self._client = client_state(body.messages)
        self._mirror = ClientStateMirror(self._view.state(run_request.session) if run_request.session else {})
        self._converter = self._run_events(self._client)
        self._events: list[Event] = []

    async def wires(self) -> AsyncIterator[Wire]:
        """Yields the run's events."""
        run_request = self._run_request
        identity = {"threadId": run_request.key.id, "runId": run_request.run}
        parent = self._body.parent_run_id
        yield event("RUN_STARTED", **identity, protocolVersion=VERSION, parentRunId=parent)
        yield self._mirror.snapshot()
        for wire in self._ignored():
            yield wire
        try:
            if run_request.is_reattached:
                restored = restored_messages(self._client.wires(), await self._messages())
                self._converter = self._run_events(client_state_from_events(restored))
                yield event("MESSAGES_SNAPSHOT", messages=restored)
            last: Invocation | None = None
            async for last in self._invocations():
                async for wire in self._invocation_wires(last):
                    yield wire
                self._events += (await last.result()).events
            for wire in await self._end(last, identity):
                yield wire
        except TurnwiseError as error:
            yield error_of(problem_of(error, self._request))

    def _run_events(self, client: ClientState) -> RunEvents:
        speakers = TurnSteps(self._description_of, supports_subagents=self._body.protocol_version is not None)
        return RunEvents(self._view, speakers, ClientMessages(client), self._mirror)

    def closing(self) -> Wire:
        """Returns the error event for a shutdown: the client should run again under the same runId."""
        closing = Closing("This process is being stopped.", fix="Run it again under the same runId.")
        return error_of(problem_of(closing, self._request))

    def _ignored(self) -> Iterable[Wire]:
        if self._run_request.unknown:
            yield custom_event("ignored", {"reason": "Nobody waits for it.", "ids": list(self._run_request.unknown)})
        if self._run_request.skipped:
            places = [".".join(map(str, place)) for place in self._run_request.skipped]
            yield custom_event("ignored", {"reason": "Nothing is fetched from elsewhere.", "places": places})

    async def _invocations(self) -> AsyncIterator[Invocation]:
        if self._run_request.first is not None:
            yield self._run_request.first
        for coming in self._run_request.rest:
            yield await asyncio.shield(coming)

    async def _invocation_wires(self, invocation: Invocation) -> AsyncIterator[Wire]:
        """Yields the invocation's events in AG-UI form. When it resumes a wait, the converter first gets the earlier calls."""
        first = True
        async for source in invocation.events():
            if first and _resumes_wait(source):
                log = await self._log(source.invocation_id)
                self._converter.add_earlier(earlier for earlier in log if (earlier.sequence or 0) < (source.sequence or 0))
            first = False
            for wire in self._converter.wires_of(source):
                yield wire

    async def _end(self, last: Invocation | None, identity: dict[str, Any]) -> list[Wire]:
        """Returns the final events. last: the invocation that was streamed last; None = there was none."""
        result, usage = None if last is None else await last.result(), usage_of(self._events)
        if result is not None and is_failed(result):
            return [{**error_of(self._failure(result)), **({} if usage is None else {"usage": usage})}]
        stopped = result is not None and is_stopped(result)
        session = await current_session(self._services, self._run_request.key)
        interrupts = [] if session is None or stopped else await self._interrupts(session)
        wires = [*self._converter.close(), *self._converter.speakers.close(_interrupts_by_tag(interrupts))]
        if session is not None:
            wires += self._mirror.replace(self._view.state(session))
        if session is not None and result is None:
            wires.append(event("MESSAGES_SNAPSHOT", messages=restored_messages(self._client.wires(), await self._messages())))
        if stopped and result is not None and result.end is not None:
            wires.append(custom_event("end", self._view.end(result.end).model_dump(mode="json")))
        outcome = outcome_of(result, interrupts, self._converter.pending)
        metadata = None if last is None or result is None or stopped else await self._record_metadata(last, result)
        return [*wires, event("RUN_FINISHED", **identity, outcome=outcome, result=metadata, usage=usage)]

    async def _interrupts(self, session: Session) -> list[Wire]:
        """Returns everything that waits for a person now, from this run or before."""
        waits = waits_for_person(waits_of(session.head), questions=self._run_request.questions)
        interrupts: list[Wire] = []
        for invocation_id in dict.fromkeys(wait.invocation_id for wait in waits):
            open_ = {wait.id: wait for wait in open_waits(await self._log(invocation_id))}
            own = [open_[wait.id] for wait in waits if wait.invocation_id == invocation_id and wait.id in open_]
            for interrupt, asking_event in interrupts_of(own, self._view):
                tag = self._converter.speakers.tag(asking_event)
                interrupts.append({**interrupt, "subagentRunId": tag} if self._converter.speakers.is_open(tag) else interrupt)
        return interrupts

    async def _log(self, invocation_id: str | None = None) -> Sequence[Event]:
        window = Window(last=MOST_EVENTS_READ, invocation_id=invocation_id)
        key = self._run_request.key
        return (await self._services.sessions.events(key.id, window)).events

    async def _messages(self) -> list[Wire]:
        return messages_in(await self._log(), self._view)

    async def _record_metadata(self, last: Invocation, result: Result) -> dict[str, Any]:
        """Returns the ids of the run's record, and its selection."""
        waits = await self._services.invocations.waits(last, result)
        where = DecisionInfo(session_id=self._run_request.key.id, message_id=last.message_id)
        pending = any(wait.call and is_late(wait.call) for wait in waits)
        return where.known(result.invocation_id, result.selection, self._view, pending=pending).model_dump(mode="json")

    def _failure(self, result: Result) -> Problem:
        reason = result.end.reason if result.end else ""
        code = result.error.code if result.error else reason
        message = failure_text(reason, result.error, self._view)
        return Problem(status_of(code), code, message, "", (), request_id_of(self._request), {})

    def _description_of(self, agent: str) -> str | None:
        tree = self._front.runner.tree
        return tree.card(agent).description or None if agent in tree and self._view.reaches(agent) else None


def _resumes_wait(source: Event) -> bool:
    """Returns whether the event continues an invocation that waited."""
    return source.actions.answers is not None or bool(source.content and source.content.tool_results)


def _interrupts_by_tag(interrupts: Iterable[Wire]) -> dict[str, list[str]]:
    """Groups interrupt ids by announced subagent."""
    waiting: dict[str, list[str]] = {}
    for interrupt in interrupts:
        if "subagentRunId" in interrupt:
            waiting.setdefault(interrupt["subagentRunId"], []).append(interrupt["id"])
    return waiting


# The protocol's own documentation describes the shapes.
router = APIRouter(include_in_schema=False)


@router.post("")
@router.post("/")
async def run(body: RunBody, request: Request, front: TheFront, services: UserServices) -> EventSourceResponse:
    """Starts a run and streams it. The run continues if the connection is lost."""
    _check_accepted(request)
    run_request = await start_run(front, services, body, redactor_of(request))
    run_stream = RunStream(front, request, services, body, run_request)
    ping = front.config.stream_ping_seconds
    return event_stream(
        run_stream.wires(), sse_event, ping=ping, closing=front.closing, hint=lambda: sse_event(run_stream.closing())
    )


def _check_accepted(request: Request) -> None:
    accepted = [kind.partition(";")[0].strip().lower() for kind in request.headers.get("accept", "*/*").split(",")]
    if not any(kind in ACCEPTED_TYPES for kind in accepted):
        problem = "Events are sent as text/event-stream, which the Accept header does not allow."
        raise RequestInvalid(problem, fix="Accept text/event-stream.", where=("header", "accept"))
