"""Responses over a web socket, with several lanes on one connection.

Requests in one lane are answered in order; lanes run concurrently. Closing the connection does not stop a run. A
response that is not stored can be continued only on its own connection, and is deleted when the connection closes.
Each request is authenticated, so a revoked key is rejected on an open connection, too.
"""

import asyncio
import re
from typing import Any

from fastapi import APIRouter
from pydantic_core import from_json
from starlette.websockets import WebSocket, WebSocketDisconnect

from turnwise.facts.callers import Caller
from turnwise.facts.errors import RequestInvalid, TooMany, TurnwiseError
from turnwise.gateway.front import Front, TheCaller, TheFront, User
from turnwise.gateway.openai.errors import error_of, invalid_parameter
from turnwise.gateway.openai.responses.schema import read_create
from turnwise.gateway.openai.responses.start import StartedResponse, start_response
from turnwise.gateway.openai.responses.stream import ResponseStream, Wire, as_json
from turnwise.gateway.problems import problem_of

MAX_LANES = 32
"""The maximum number of named lanes of a connection."""
MAX_ACTIVE = 16
"""The maximum number of concurrent responses of a connection."""
MAX_QUEUED = 64
"""The maximum number of queued requests of a connection."""
MAX_UNSTORED = 32
"""How many of the newest unstored responses a connection may continue from."""
RESTART = 1012
"""The close code at shutdown."""

_LANE = re.compile(r"[A-Za-z0-9_.-]{1,256}")

router = APIRouter(tags=["openai"])


@router.websocket("/responses")
async def converse(websocket: WebSocket, front: TheFront, _: TheCaller, user: User = None) -> None:
    """Receives `response.create` events and streams each response."""
    await websocket.accept()
    await _Connection(front, websocket, user).serve()


class _Closed(Exception):
    """The connection is closed or has to be closed."""


class _Lane:
    """A lane with its queued requests. `name` is None for the default lane; `stream` is its current stream."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.stream: ResponseStream | None = None


class _Connection:
    """One web socket connection."""

    def __init__(self, front: Front, websocket: WebSocket, user: str | None) -> None:
        self._front, self._websocket, self._user = front, websocket, user
        self._lanes: dict[str | None, _Lane] = {}
        self._active = asyncio.Semaphore(MAX_ACTIVE)
        self._sending = asyncio.Lock()
        self._unstored: dict[str, StartedResponse] = {}

    async def serve(self) -> None:
        """Serves the connection until either side closes it."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read(group))
                group.create_task(self._wait_for_shutdown())
        except* _Closed:
            pass
        finally:
            while self._unstored:
                self._forget(next(iter(self._unstored)))
        if self._front.closing.is_set():
            await self._send_closing()

    async def _read(self, group: asyncio.TaskGroup) -> None:
        """Reads events until the client disconnects, and queues each on its lane. An invalid one is answered with an error."""
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                raise _Closed
            given, event = message.get("text") or message.get("bytes") or b"", dict[str, Any]()
            try:
                await self._front.quotas.received(await self._caller(), self._user, len(given))
                event = _event(given)
                lane = await self._enqueue(event)
            except TurnwiseError as error:
                await self._send_error(error, _lane_of(event))
                continue
            if lane is not None:
                group.create_task(self._answer_all(lane))

    async def _enqueue(self, event: dict[str, Any]) -> _Lane | None:
        """Queues a request in its lane, and returns the lane if it is new."""
        kind = event.pop("type", None)
        if kind == "response.steer":
            await self._send(_steer_rejection(event))
            return None
        if kind != "response.create":
            raise invalid_parameter("type", "Events of this type are not supported.", fix="Send response.create.")
        given, name = event.get("stream_id"), _lane_of(event)
        if given != name:
            raise invalid_parameter(
                "stream_id", "This is not a valid stream_id.", fix="Use 1 to 256 of A-Z, a-z, 0-9, '_', '-' and '.'."
            )
        known = self._lanes.get(name)
        if known is None and name is not None and len(self._lanes.keys() - {None}) >= MAX_LANES:
            raise invalid_parameter(
                "stream_id", f"A connection may have at most {MAX_LANES} named lanes.", fix="Use an existing one."
            )
        if sum(lane.asked.qsize() for lane in self._lanes.values()) >= MAX_QUEUED:
            raise TooMany(f"{MAX_QUEUED} requests of this connection wait already.", fix="Wait for an answer.")
        lane = self._lanes.setdefault(name, _Lane(name))
        event.pop("stream_id", None)
        lane.asked.put_nowait(event)
        return lane if known is None else None

    async def _answer_all(self, lane: _Lane) -> None:
        """Answers the requests of one lane in order."""
        while True:
            given = await lane.asked.get()
            async with self._active:
                try:
                    lane.stream = await self._start_stream(given)
                except TurnwiseError as error:
                    await self._send_error(error, lane.name)
                    continue
                async for wire in lane.stream.events():
                    await self._send(_nested(wire), lane.name)
                    if wire["type"] == "response.failed":
                        self._forget(given.get("previous_response_id"))
                lane.stream = None

    async def _start_stream(self, given: dict[str, Any]) -> ResponseStream:
        """Starts the response of one `response.create` event. Raises for options that a web socket does not support."""
        if given.pop("generate", None) is False:
            raise invalid_parameter("generate", "Requests cannot be prepared in advance.")
        if given.get("background"):
            raise invalid_parameter(
                "background",
                "Background responses are not supported on a web socket; a run continues without the connection anyway.",
            )
        body = read_create({**given, "stream": True})
        caller = await self._caller()
        await self._front.quotas.request(caller, self._user or caller.user)
        padded = bool(body.stream_options and body.stream_options.include_obfuscation)
        try:
            asked = await start_response(self._front, self._front.services(caller, self._user), body, known=self._unstored)
        except TurnwiseError:
            self._forget(body.previous_response_id)
            raise
        if asked.is_temporary:
            self._unstored[asked.name.id] = asked
            if len(self._unstored) > MAX_UNSTORED:
                self._forget(next(iter(self._unstored)))
        return ResponseStream(self._front, self._websocket, asked, padded=padded)

    def _forget(self, response_id: str | None) -> None:
        """Removes an unstored response. Its session is deleted unless a newer response uses it."""
        asked = self._unstored.pop(response_id or "", None)
        if asked is not None and all(other.name.session != asked.name.session for other in self._unstored.values()):
            asked.services.threads.delete_after(asked.invocation)

    async def _caller(self) -> Caller:
        headers, client = self._websocket.headers, self._websocket.client
        address = client.host if client else ""
        return await self._front.authenticator.caller(headers.get("Authorization"), headers.get("X-API-Key"), address)

    async def _send_error(self, error: TurnwiseError, lane: str | None) -> None:
        problem = problem_of(error, self._websocket)
        details = error_of(problem).model_dump() | ({"headers": dict(problem.headers)} if problem.headers else {})
        await self._send({"type": "error", "status": problem.status, "error": details}, lane)

    async def _send(self, wire: Wire, lane: str | None = None) -> None:
        """Sends one event, with the name of its lane. Raises _Closed when the client is gone."""
        named = wire if lane is None else {**wire, "stream_id": lane}
        async with self._sending:
            try:
                await self._websocket.send_text(as_json(named))
            except (WebSocketDisconnect, RuntimeError):
                raise _Closed from None

    async def _wait_for_shutdown(self) -> None:
        await self._front.closing.wait()
        raise _Closed

    async def _send_closing(self) -> None:
        """Ends open streams with an error event, and closes the connection."""
        try:
            for lane in self._lanes.values():
                if lane.stream is not None:
                    await self._send(_nested(lane.stream.closing()), lane.name)
            await self._websocket.close(RESTART)
        except (_Closed, WebSocketDisconnect, RuntimeError):
            pass  # the connection is closed already


def _event(given: str | bytes) -> dict[str, Any]:
    """Parses a received event. Raises RequestInvalid for anything but a JSON object."""
    try:
        event = from_json(given, allow_inf_nan=False)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise RequestInvalid("The event is not a JSON object.", fix="Send a JSON object in UTF-8.")
    return event


def _lane_of(event: dict[str, Any]) -> str | None:
    """Returns the name of the event's lane; None if it is not valid."""
    name = event.get("stream_id")
    return name if isinstance(name, str) and _LANE.fullmatch(name) else None


def _nested(wire: Wire) -> Wire:
    """Returns the event in the web socket's format, in which an error is a nested object."""
    if wire["type"] != "error":
        return wire
    details = {name: wire[name] for name in ("code", "message", "param")} | {"type": "server_error"}
    return {"type": "error", "status": 503, "sequence_number": wire["sequence_number"], "error": details}


def _steer_rejection(event: dict[str, Any]) -> Wire:
    why = "A running response accepts no more input. Send a response.create that continues from it."
    error = {"type": "invalid_request_error", "code": "steering_not_supported", "message": why}
    details = {name: event.get(name) for name in ("input", "previous_response_id")}
    return {"type": "response.steer.failed", "sequence_number": 0, "error": error, "steer": details}
