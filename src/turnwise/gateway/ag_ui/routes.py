"""`POST /ag-ui`: a run. What is sent is RunAgentInput, what comes are the run's events."""

from fastapi import APIRouter, Request
from fastapi.sse import EventSourceResponse

from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.ag_ui.asking import ask
from turnwise.gateway.ag_ui.body import RunBody
from turnwise.gateway.ag_ui.telling import Telling
from turnwise.gateway.ag_ui.wire import written
from turnwise.gateway.front import TheCaller, TheFront, view_of
from turnwise.gateway.parameters import User
from turnwise.gateway.sse import streamed

TYPES = ("text/event-stream", "text/*", "*/*", "application/json")

# The shapes are the protocol's own, and described there.
router = APIRouter(include_in_schema=False)


@router.post("")
@router.post("/")
async def run(body: RunBody, request: Request, front: TheFront, caller: TheCaller, user: User = None) -> EventSourceResponse:
    """Whatever happens to this connection, the run goes on."""
    _check_accepted(request)
    asked = await ask(front, caller, body, user, view_of(request))
    telling = Telling(front, request, caller, body, asked)
    ping = front.config.stream_ping_seconds
    return streamed(telling.wires(), written, ping=ping, closing=front.closing, hint=lambda: written(telling.closing()))


def _check_accepted(request: Request) -> None:
    accepted = [kind.partition(";")[0].strip().lower() for kind in request.headers.get("accept", "*/*").split(",")]
    if not any(kind in TYPES for kind in accepted):
        problem = "The events of a run come as server-sent events, and not as what is accepted."
        raise RequestInvalid(problem, fix="Accept text/event-stream.", where=("header", "accept"))
