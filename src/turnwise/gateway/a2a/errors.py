"""Maps Turnwise errors to A2A errors, and renders them for JSON-RPC and for the HTTP binding.

Errors that A2A cannot express, such as rate limits, keep their HTTP status in both bindings.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from a2a.utils.error_handlers import A2A_DOMAIN, BAD_REQUEST_TYPE, ERROR_INFO_TYPE
from a2a.utils.errors import (
    A2A_ERROR_MAPPING,
    JSON_RPC_ERROR_CODE_MAP,
    A2AError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    JSONParseError,
    MethodNotFoundError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from starlette.responses import JSONResponse, Response

from turnwise.gateway.problems import Problem

DOMAIN = "turnwise"
"""The `domain` of error reasons that A2A does not define."""
ACCESS_CODE = -32000
"""The JSON-RPC code for 401, 403 and 429; A2A reserves this range for implementations."""

ERROR_TYPES: Mapping[str, type[A2AError]] = MappingProxyType(
    {
        "request": InvalidRequestError,
        "request.invalid": InvalidParamsError,
        "request.nothing_here": MethodNotFoundError,
        "request.not_ready": InternalError,
        "request.closing": InternalError,
        "message": InvalidParamsError,
        "message.nobody_eligible": UnsupportedOperationError,
        "session": UnsupportedOperationError,
        "session.missing": TaskNotFoundError,
        "session.invocation_missing": TaskNotFoundError,
        "artifact": InvalidParamsError,
        "definition": InvalidParamsError,
        "memory": InvalidParamsError,
        "store.cursor": InvalidParamsError,
    }
)
"""A2A error types by Turnwise error code, or by its first segment. Codes not listed map to InternalError."""
_GRPC_STATUSES: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        401: ("UNAUTHENTICATED", "UNAUTHENTICATED"),
        403: ("PERMISSION_DENIED", "PERMISSION_DENIED"),
        429: ("RESOURCE_EXHAUSTED", "RATE_LIMITED"),
        503: ("UNAVAILABLE", "UNAVAILABLE"),
    }
)
"""The gRPC status and reason of each HTTP status that has one."""
_HTTP_STATUSES = frozenset({401, 403, 405, 408, 413, 429})
"""HTTP statuses that JSON-RPC responses keep, in addition to all from 500 on."""


class Refusal(NamedTuple):
    """A protocol error, ready to be rendered by either binding."""

    http: int
    """The HTTP status."""
    keeps_status: bool
    """True if JSON-RPC responses use the HTTP status as well. Otherwise they answer 200."""
    code: int
    """The JSON-RPC error code."""
    status: str
    """The gRPC status name."""
    message: str
    details: list[dict[str, Any]]
    headers: Mapping[str, str]

    @property
    def as_rpc(self) -> dict[str, Any]:
        """The JSON-RPC `error` object."""
        return {"code": self.code, "message": self.message, "data": self.details}

    @property
    def as_rest(self) -> dict[str, Any]:
        """The body of the HTTP binding."""
        return {"error": {"code": self.http, "status": self.status, "message": self.message, "details": self.details}}


def refusal_of(problem: Problem) -> Refusal:
    """Converts a Turnwise problem to a protocol error."""
    kind = ERROR_TYPES.get(problem.code) or ERROR_TYPES.get(problem.code.partition(".")[0], InternalError)
    defaults = A2A_ERROR_MAPPING[kind]
    keeps_status = problem.status in _HTTP_STATUSES or problem.status >= 500
    status, reason = _GRPC_STATUSES.get(problem.status, (defaults.grpc_status, defaults.reason))
    metadata = {"code": problem.code, "fix": problem.fix, "requestId": problem.request_id}
    message = f"{problem.problem} {problem.fix}".rstrip()
    details = [_info(reason, metadata, DOMAIN if problem.status in _GRPC_STATUSES else A2A_DOMAIN)]
    if kind is InvalidParamsError and problem.where:
        details.append(_violation(".".join(map(str, problem.where)), problem.problem))
    code = ACCESS_CODE if problem.status in (401, 403, 429) else JSON_RPC_ERROR_CODE_MAP[kind]
    return Refusal(
        problem.status if keeps_status else defaults.http_code, keeps_status, code, status, message, details, problem.headers
    )


def protocol_refusal(error: A2AError, request_id: str) -> Refusal:
    """Converts an error that the A2A SDK defines to a protocol error."""
    kind = type(error)
    defaults = A2A_ERROR_MAPPING[InvalidRequestError if kind is JSONParseError else kind]
    data = error.data if isinstance(error.data, dict) else {}
    metadata = {name: value for name, value in data.items() if isinstance(value, str)} | {"requestId": request_id}
    details = [_info(defaults.reason, metadata, A2A_DOMAIN)]
    for violation in data.get("errors", ()):
        details.append(_violation(violation["field"], violation["message"]))
    return Refusal(defaults.http_code, False, JSON_RPC_ERROR_CODE_MAP[kind], defaults.grpc_status, error.message, details, {})


def rpc_response(refusal: Refusal, id_: str | int | float | None = None) -> Response:
    """Returns the JSON-RPC error response for the call with this id."""
    body = {"jsonrpc": "2.0", "id": id_, "error": refusal.as_rpc}
    return JSONResponse(body, refusal.http if refusal.keeps_status else 200, dict(refusal.headers))


def rest_response(refusal: Refusal) -> Response:
    """Returns the error response of the HTTP binding."""
    return JSONResponse(refusal.as_rest, refusal.http, dict(refusal.headers))


def rpc_error_response(problem: Problem) -> Response:
    """Returns the JSON-RPC response for a request that failed before its call was parsed."""
    return rpc_response(refusal_of(problem))


def rest_error_response(problem: Problem) -> Response:
    """Returns the HTTP binding's response for a request that failed before it reached an operation."""
    return rest_response(refusal_of(problem))


def _info(reason: str, metadata: dict[str, str], domain: str) -> dict[str, Any]:
    present = {name: value for name, value in metadata.items() if value}
    return {"@type": ERROR_INFO_TYPE, "reason": reason, "domain": domain, "metadata": present}


def _violation(field: str, description: str) -> dict[str, Any]:
    return {"@type": BAD_REQUEST_TYPE, "fieldViolations": [{"field": field, "description": description}]}
