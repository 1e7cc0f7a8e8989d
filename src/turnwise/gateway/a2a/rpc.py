"""JSON-RPC: `POST /a2a`."""

import json
import math
from collections.abc import Callable
from typing import Any

from a2a.utils.errors import A2AError, InvalidParamsError, InvalidRequestError, MethodNotFoundError
from fastapi import APIRouter, Request, Response
from fastapi.sse import format_sse_event
from starlette.responses import JSONResponse

from turnwise.facts.errors import TurnwiseError
from turnwise.gateway.a2a.calling import asked, check_content, check_spoken, refused, stream, written
from turnwise.gateway.a2a.methods import METHODS, Method
from turnwise.gateway.a2a.operations import Operations
from turnwise.gateway.a2a.reading import json_of, message_of
from turnwise.gateway.a2a.refusals import Refusal, rpc_answer
from turnwise.gateway.front import TheCaller, TheFront
from turnwise.gateway.parameters import User

VERSION = "2.0"
Id = str | int | float | None

router = APIRouter(include_in_schema=False)


@router.post("")
@router.post("/")
async def call(request: Request, front: TheFront, caller: TheCaller, user: User = None) -> Response:
    """Answers a call, or streams what comes of it."""
    id_: Id = None
    try:
        check_content(request)
        given = json_of(await request.body())
        id_ = _id_of(given)
        check_spoken(request)
        method, params = _asked_for(given)
        told = method.operation(Operations(front), message_of(params, method.params), asked(request, front, caller, user))
        if method.streamed:
            return await stream(told, request, front, _writer(id_), again="SubscribeToTask")
        return JSONResponse({"jsonrpc": VERSION, "id": id_, "result": written(await told, method)})
    except (A2AError, TurnwiseError) as error:
        return rpc_answer(refused(error, request, front), id_)


def _id_of(given: Any) -> Id:
    """The call's id. InvalidRequestError for what is no call."""
    if isinstance(given, list):
        raise InvalidRequestError("Several calls at once are not supported. Send one after the other.")
    if not isinstance(given, dict):
        raise InvalidRequestError("The body is no JSON object.")
    id_ = given.get("id")
    if isinstance(id_, bool) or not isinstance(id_, str | int | float | None) or id_ in (math.inf, -math.inf):
        raise InvalidRequestError("The id is neither a text nor a number.")
    return id_


def _asked_for(given: dict[str, Any]) -> tuple[Method, dict[str, Any]]:
    if given.get("jsonrpc") != VERSION:
        raise InvalidRequestError(f"It is no call of JSON-RPC {VERSION}: 'jsonrpc' says so.")
    name, params = given.get("method"), given.get("params")
    if not isinstance(name, str) or not name:
        raise InvalidRequestError("The method is no text.")
    if name not in METHODS:
        raise MethodNotFoundError(f"There is no method {name[:64]!r}.")
    if params is not None and not isinstance(params, dict):
        raise InvalidParamsError("The params are no object.")
    return METHODS[name], params or {}


def _writer(id_: Id) -> Callable[[dict[str, Any] | Refusal], bytes]:
    def write(told: dict[str, Any] | Refusal) -> bytes:
        if isinstance(told, Refusal):
            return format_sse_event(data_str=json.dumps({"jsonrpc": VERSION, "id": id_, "error": told.as_rpc}), event="error")
        return format_sse_event(data_str=json.dumps({"jsonrpc": VERSION, "id": id_, "result": told}))

    return write
