"""How the OpenAI-compatible door writes what went wrong: `{"error": {message, type, param, code}}`.

The client makes its exceptions of the status, and reads `code` and `param`. Where OpenAI has a code for it, that one is given;
otherwise ours (docs/errors.md).
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
"""By status; any other below 500 is `invalid_request_error`, from 500 on `server_error`."""

CODES: Mapping[str, str] = MappingProxyType(
    {
        "access.unauthenticated": "invalid_api_key",
        "access.too_many": "rate_limit_exceeded",
        "message.blocked": "content_filter",
    }
)
"""OpenAI's names for codes of ours."""

MISSING: Mapping[str, str] = MappingProxyType(
    {
        "model": "model_not_found",
        "previous_response_id": "previous_response_not_found",
        "conversation": "conversation_not_found",
    }
)
"""OpenAI's names for what is not there, by the parameter that names it."""

_NAMES: Mapping[int, str] = MappingProxyType(
    {
        400: "The request cannot be read.",
        401: "No credential, or none that counts.",
        403: "The credential may not do that.",
        404: "There is no such thing, or it is somebody else's.",
        408: "It did not come in time.",
        409: "It cannot be done now.",
        413: "Too large.",
        422: "The request is wrong; `param` says at which place.",
        429: "Too much in this time.",
        500: "The agent failed.",
        503: "Not now.",
    }
)
_SOURCES = frozenset({"body", "query", "path", "header"})


class WireError(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class Refusal(BaseModel):
    """The body of an answer that is none."""

    error: WireError


def error_of(problem: Problem) -> WireError:
    """The problem as a value of the wire."""
    param = param_of(problem.where)
    code = MISSING.get(param or "", problem.code) if problem.code == NothingHere.code else problem.code
    type_ = TYPES.get(problem.status, "server_error" if problem.status >= 500 else "invalid_request_error")
    return WireError(message=f"{problem.problem} {problem.fix}".rstrip(), type=type_, param=param, code=CODES.get(code, code))


def param_of(where: Sequence[str | int]) -> str | None:
    """The place in the request as OpenAI writes it: `messages[0].content`; None = the whole."""
    names = where[1:] if where and where[0] in _SOURCES else where
    return "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in names).lstrip(".") or None


def error_response(problem: Problem) -> Response:
    """The answer to a request with that problem. Whether the client tries again by itself is said, too: else it would do so
    for a mistake of its own that has one of certain statuses.
    """
    again = "true" if "Retry-After" in problem.headers else "false"
    headers = {**problem.headers, "x-should-retry": again}
    return JSONResponse(Refusal(error=error_of(problem)).model_dump(), problem.status, headers)


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI says of those statuses, and of those that any route may give."""
    every = sorted({*statuses, 400, 401, 403, 422, 429, 503})
    return {status: {"model": Refusal, "description": _NAMES[status]} for status in every}


Where = tuple[str | int, ...]
"""A place in the body."""
Metadata = dict[Annotated[str, StringConstraints(max_length=64)], Annotated[str, StringConstraints(max_length=512)]]


def invalid_parameter(where: str | Where, problem: str, *, fix: str = "Leave it out.") -> RequestInvalid:
    """The error that names a parameter of the body."""
    return RequestInvalid(problem, fix=fix, where=("body", *((where,) if isinstance(where, str) else where)))


def check_form(form: JsonValue, where: Where) -> None:
    """RequestInvalid for an answer's form that is any other than text."""
    if form is not None and not (isinstance(form, dict) and form.get("type") == "text"):
        problem = "The form of an answer is its agent's: it cannot be given with a request."
        raise invalid_parameter(where, problem, fix="Leave it out, or give the agent an output type.")


def no_probabilities(where: str) -> RequestInvalid:
    """The error for whoever asks how sure a model was of its words."""
    return invalid_parameter(where, "Agents give no log probabilities.")


def check_choice(*, tools: bool, choice: JsonValue, parallel: bool | None) -> None:
    """RequestInvalid for who would decide on calls in the agents' place. tools: whether there are any of the caller's."""
    if choice not in (None, "auto", "none"):
        raise invalid_parameter("tool_choice", "Agents choose their tools themselves: only 'auto' and 'none' are supported.")
    if tools and parallel is False:
        problem = "Agents may make several calls at once: this cannot be switched off with a request."
        raise invalid_parameter("parallel_tool_calls", problem)


def not_a_function(where: Where, kind: str) -> RequestInvalid:
    """The error for tools of other types."""
    return invalid_parameter(
        where, f"Tools of the type {kind[:64]!r} are not supported, only functions.", fix="Use a function."
    )
