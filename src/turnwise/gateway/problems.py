"""Converts errors of requests to a `Problem`, which each protocol writes in its own format."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from turnwise.facts.errors import (
    Closing,
    DefinitionInvalid,
    ModelUnavailable,
    NoSuchRange,
    NothingHere,
    RequestError,
    RequestInvalid,
    RequestTimeout,
    RequestTooLarge,
    SessionBusy,
    StoreUnavailable,
    TooMany,
    TurnwiseError,
    WrongMethod,
)
from turnwise.gateway.openapi import DOCUMENTATION

INTERNAL = "internal"
"""The code of an internal error. Only the log has its cause, under the request's id."""

STATUS: Mapping[str, int] = MappingProxyType(
    {
        "access": 403,
        "access.unauthenticated": 401,
        "access.forbidden": 403,
        "access.too_many": 429,
        "request": 400,
        "request.invalid": 422,
        "request.too_large": 413,
        "request.timeout": 408,
        "request.nothing_here": 404,
        "request.method": 405,
        "request.range": 416,
        "request.key_reused": 422,
        "request.precondition": 412,
        "request.precondition_required": 428,
        "request.not_ready": 503,
        "request.closing": 503,
        "definition": 422,
        "definition.exists": 409,
        "definition.conflict": 412,
        "definition.set_changed": 409,
        "definition.out_of_bounds": 409,
        "definition.missing": 404,
        "definition.newer": 409,
        "message": 422,
        "message.too_large": 413,
        "message.unknown_tool_call": 409,
        "message.nobody_eligible": 409,
        "session": 409,
        "session.missing": 404,
        "session.invocation_missing": 404,
        "session.queue_full": 429,
        "session.state_full": 413,
        "user": 403,
        "artifact": 422,
        "artifact.too_large": 413,
        "store": 503,
        "store.full": 507,
        "store.cursor": 422,
        "model": 502,
        "model.unavailable": 503,
        "encoder": 503,
        "memory": 422,
        "limit": 429,
        INTERNAL: 500,
    }
)
"""HTTP status by error code. Other codes have the status of the part before the dot, or 500."""

RETRY_SECONDS = 1.0


def status_of(code: str) -> int:
    """Returns the HTTP status of an error code."""
    return STATUS.get(code) or STATUS.get(code.partition(".")[0]) or 500


def retry_after(error: TurnwiseError) -> int | None:
    """Returns after how many seconds a retry may succeed; None if a retry does not help."""
    if isinstance(error, TooMany):
        return math.ceil(error.retry_after)
    if isinstance(error, ModelUnavailable) and error.retry_after is not None:
        return math.ceil(error.retry_after)
    if isinstance(error, StoreUnavailable) or status_of(error.code) in {429, 503}:
        return math.ceil(RETRY_SECONDS)
    return None


def headers_of(error: TurnwiseError) -> dict[str, str]:
    """Returns the error's response headers, which are the same in every protocol."""
    headers = {}
    if (seconds := retry_after(error)) is not None:
        headers["Retry-After"] = str(seconds)
    if status_of(error.code) == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, NoSuchRange):
        headers["Content-Range"] = f"bytes */{error.size}"
    return headers


def accepts_method(scope: Scope, method: str) -> bool:
    """Returns whether a route of the app accepts the method at the request's path."""
    asked = {**scope, "method": method}
    return any(route.matches(asked)[0] is Match.FULL for route in scope["app"].routes)


class Problem(NamedTuple):
    """An error response before a protocol writes it."""

    status: int
    code: str
    """Turnwise's stable error code."""
    problem: str
    fix: str
    where: tuple[str | int, ...]
    """The path of the invalid field in the request."""
    request_id: str
    """The request's id in the log."""
    headers: Mapping[str, str]
    mistakes: Sequence[TurnwiseError] = ()
    """Each mistake of a definition."""


Form = Callable[[Problem], Response]

PLACE_CHARACTERS = 200
_MISSING, _UNKNOWN = "missing", "extra_forbidden"
_RANKS = {_MISSING: 0, _UNKNOWN: 1}


class RaisedProblem(HTTPException):
    """Carries an error out of the reading of a body, where FastAPI would report any other exception as an invalid body."""

    def __init__(self, error: Exception) -> None:
        super().__init__(status_of(error.code if isinstance(error, TurnwiseError) else INTERNAL))
        self.error = error


def problem_of(error: TurnwiseError, connection: HTTPConnection) -> Problem:
    """Returns the error as a problem of the request."""
    if isinstance(error, SessionBusy) and connection.app.state.front.closing.is_set():
        # At shutdown, a request that waits for another process's answer ends with Closing instead.
        error = Closing("This process is being stopped.", fix="Ask again: another one answers.")
    where = error.where if isinstance(error, RequestError) else ()
    status = status_of(error.code)
    mistakes = error.problems if isinstance(error, DefinitionInvalid) else ()
    request_id, headers = request_id_of(connection), headers_of(error)
    return Problem(status, error.code, error.problem, error.fix, where, request_id, headers, mistakes)


def problem_response(error: TurnwiseError, connection: HTTPConnection, form_for: Callable[[str], Form]) -> Response:
    """Returns the response for the error in the format of the path's protocol, and counts the error."""
    return _response(problem_of(error, connection), connection, form_for)


def internal_error_response(connection: HTTPConnection, form_for: Callable[[str], Form]) -> Response:
    """Returns the response for an unexpected exception. It does not reveal the cause."""
    fix = "Its cause is in the log, under the request's id."
    problem = Problem(500, INTERNAL, "This is a defect of the gateway.", fix, (), request_id_of(connection), {})
    return _response(problem, connection, form_for)


def _response(problem: Problem, connection: HTTPConnection, form_for: Callable[[str], Form]) -> Response:
    metrics = connection.app.state.front.metrics
    if metrics is not None:
        metrics.count_error(problem.code)
    return form_for(connection.scope["path"])(problem)


def request_id_of(connection: HTTPConnection) -> str:
    return str(connection.scope.get("state", {}).get("request_id", ""))


def register_error_handlers(app: FastAPI, form_for: Callable[[str], Form]) -> None:
    """Registers exception handlers that respond in the format of the path's protocol. Unexpected exceptions pass through."""

    async def ours(request: Request, error: Any) -> Response:
        return problem_response(error, request, form_for)

    async def invalid(request: Request, error: Any) -> Response:
        return await ours(request, _validation_error(error.errors(), request))

    async def http(request: Request, error: Any) -> Response:
        if isinstance(error, RaisedProblem):
            if not isinstance(error.error, TurnwiseError):
                raise error.error
            return await ours(request, error.error)
        answer = await ours(request, _http_error(error, request))
        answer.headers.update(error.headers or {})
        if error.status_code == 405:
            answer.headers["Allow"] = ", ".join(_allowed_methods(request))
        return answer

    app.add_exception_handler(TurnwiseError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)


def _allowed_methods(request: Request) -> Iterator[str]:
    """Yields the methods of all routes at the path; the framework considers only the first route."""
    for method in ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"):
        # HEAD is answered wherever GET is.
        if accepts_method(request.scope, method) or (method == "HEAD" and accepts_method(request.scope, "GET")):
            yield method


def _validation_error(errors: Sequence[Any], request: Request) -> RequestInvalid:
    """Returns the most useful of the validation errors: a missing field before an unknown field before any other.

    An unknown field is mentioned together with a missing one, because it is often that field, misspelled.
    """
    first = min(errors, key=lambda error: _RANKS.get(error["type"], len(_RANKS)))
    where = tuple(first["loc"])
    if first["type"] == "json_invalid":
        return RequestInvalid("The body is not JSON.", fix="Send a JSON object in UTF-8.", where=where[:1])
    if where == ("body",) and "json" not in request.headers.get("content-type", ""):
        fix = "Send the header Content-Type: application/json, if it is."
        return RequestInvalid("The Content-Type of the body is not JSON.", fix=fix, where=where)
    problem_text = f"{_field_name(where)}: {first['msg']}."
    if first["type"] == _MISSING and (unknown := next((each for each in errors if each["type"] == _UNKNOWN), None)):
        problem_text += f" There is no field {_field_name(tuple(unknown['loc']))!r}."
    more = f" (Mistakes in all: {len(errors)}.)" if len(errors) > 1 else ""
    return RequestInvalid(problem_text + more, fix=_documentation_hint(request), where=where)


def _field_name(where: tuple[str | int, ...]) -> str:
    """Returns the field's dotted name, without the leading body, path or query."""
    return ".".join(map(str, where[1:] or where))[:PLACE_CHARACTERS]


def _documentation_hint(request: Request) -> str:
    """Returns a hint to the documentation page, if the path is documented there."""
    is_described = getattr(request.scope.get("route"), "include_in_schema", True)
    return f"See the API reference at {DOCUMENTATION}." if request.app.openapi_url and is_described else ""


_KINDS: Mapping[int, tuple[type[RequestError], str]] = {
    404: (NothingHere, "There is nothing at this path."),
    405: (WrongMethod, "This path does not take that method."),
    408: (RequestTimeout, "The request did not arrive in time."),
    413: (RequestTooLarge, "The request's body is too large."),
}


def _http_error(error: HTTPException, request: Request) -> RequestError:
    kind, text = _KINDS.get(error.status_code, (RequestInvalid, "The request cannot be parsed."))
    return kind(text, fix=_documentation_hint(request) if kind is NothingHere else "")
