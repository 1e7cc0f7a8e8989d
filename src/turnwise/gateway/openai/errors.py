"""Errors in OpenAI's format, `{"error": {message, type, param, code}}`, and checks that both OpenAI endpoints share.

OpenAI's clients choose the exception by the status, and expose `code` and `param`. An error has OpenAI's code where
one exists, otherwise Turnwise's code (docs/errors.md).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BaseModel, JsonValue, StringConstraints
from starlette.responses import JSONResponse, Response

from turnwise.facts.errors import NothingHere, RequestInvalid
from turnwise.gateway.problems import Problem

TYPES: Mapping[int, str] = MappingProxyType(
    {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
)
"""Error types by status. Other statuses have `invalid_request_error` below 500, and `server_error` from 500 on."""

CODES: Mapping[str, str] = MappingProxyType(
    {
        "access.unauthenticated": "invalid_api_key",
        "access.too_many": "rate_limit_exceeded",
        "message.blocked": "content_filter",
    }
)
"""OpenAI's codes for Turnwise's codes."""

MISSING: Mapping[str, str] = MappingProxyType(
    {
        "model": "model_not_found",
        "previous_response_id": "previous_response_not_found",
        "conversation": "conversation_not_found",
    }
)
"""OpenAI's codes for a missing resource, by the parameter that names it."""

_NAMES: Mapping[int, str] = MappingProxyType(
    {
        400: "The request cannot be parsed.",
        401: "The credential is missing or invalid.",
        403: "The credential does not permit this.",
        404: "The resource does not exist or belongs to another user.",
        408: "The request body did not arrive in time.",
        409: "The current state of the resource does not allow this.",
        413: "The request body is too large.",
        422: "The request is invalid; `param` names the field.",
        429: "Rate limit exceeded.",
        500: "The agent failed.",
        503: "Temporarily unavailable.",
    }
)
_SOURCES = frozenset({"body", "query", "path", "header"})


class WireError(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class Refusal(BaseModel):
    """The body of an error response."""

    error: WireError


def error_of(problem: Problem) -> WireError:
    """Returns the problem in OpenAI's format."""
    param = param_of(problem.where)
    code = MISSING.get(param or "", problem.code) if problem.code == NothingHere.code else problem.code
    type_ = TYPES.get(problem.status, "server_error" if problem.status >= 500 else "invalid_request_error")
    return WireError(message=f"{problem.problem} {problem.fix}".rstrip(), type=type_, param=param, code=CODES.get(code, code))


def param_of(where: Sequence[str | int]) -> str | None:
    """Returns the field's path in OpenAI's notation, such as `messages[0].content`; None for the whole request."""
    names = where[1:] if where and where[0] in _SOURCES else where
    return "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in names).lstrip(".") or None


def error_response(problem: Problem) -> Response:
    """Returns the response for the problem.

    It tells the client whether to retry. Otherwise OpenAI's clients would retry some statuses on their own.
    """
    again = "true" if "Retry-After" in problem.headers else "false"
    headers = {**problem.headers, "x-should-retry": again}
    return JSONResponse(Refusal(error=error_of(problem)).model_dump(), problem.status, headers)


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the OpenAPI entries for these error statuses and for those that any route may return."""
    every = sorted({*statuses, 400, 401, 403, 422, 429, 503})
    return {status: {"model": Refusal, "description": _NAMES[status]} for status in every}


Where = tuple[str | int, ...]
"""The path of a field in the body."""
Metadata = dict[Annotated[str, StringConstraints(max_length=64)], Annotated[str, StringConstraints(max_length=512)]]


def invalid_parameter(where: str | Where, problem: str, *, fix: str = "Leave it out.") -> RequestInvalid:
    """Returns an error that names a parameter of the body."""
    return RequestInvalid(problem, fix=fix, where=("body", *((where,) if isinstance(where, str) else where)))


def check_response_format(form: JsonValue, where: Where) -> None:
    """Raises RequestInvalid for a response format other than text."""
    if form is not None and not (isinstance(form, dict) and form.get("type") == "text"):
        problem = "The agent determines the answer's format; a request cannot set it."
        raise invalid_parameter(where, problem, fix="Leave it out, or give the agent an output type.")


def log_probabilities_error(where: str) -> RequestInvalid:
    """Returns the error for requested log probabilities."""
    return invalid_parameter(where, "Agents do not return log probabilities.")


def check_choice(*, tools: bool, choice: JsonValue, parallel: bool | None) -> None:
    """Checks the parameters that control tool calls. `tools` tells whether the caller offers tools.

    Raises:
        RequestInvalid: The request forces or forbids calls in a way that agents do not support.
    """
    if choice not in (None, "auto", "none"):
        raise invalid_parameter("tool_choice", "Agents choose their tools themselves: only 'auto' and 'none' are supported.")
    if tools and parallel is False:
        problem = "Agents may make parallel calls; a request cannot disable this."
        raise invalid_parameter("parallel_tool_calls", problem)


def unsupported_tool_error(where: Where, kind: str) -> RequestInvalid:
    """Returns the error for tools that are not functions."""
    return invalid_parameter(
        where, f"Tools of the type {kind[:64]!r} are not supported, only functions.", fix="Use a function."
    )
