"""How the protocol writes what went wrong: the one table from our errors to its own, and the forms of both bindings.

What the protocol has no error for, because it is a matter of HTTP, keeps its HTTP status in both.
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
"""Of reasons that are not the protocol's."""
ACCESS_CODE = -32000
"""JSON-RPC's, for who may not: the protocol leaves it to us."""

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
        "store.cursor": InvalidParamsError,
    }
)
"""By our code, or its branch. What is not here is an internal error."""
_GRPC_STATUSES: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        401: ("UNAUTHENTICATED", "UNAUTHENTICATED"),
        403: ("PERMISSION_DENIED", "PERMISSION_DENIED"),
        429: ("RESOURCE_EXHAUSTED", "RATE_LIMITED"),
        503: ("UNAVAILABLE", "UNAVAILABLE"),
    }
)
"""Statuses for which there is a word of gRPC, and the reason."""
_HTTP_STATUSES = frozenset({401, 403, 405, 408, 413, 429})
"""Statuses that are HTTP's own, and so are all from 500 on."""


class Refusal(NamedTuple):
    """An error of the wire. http: the status of HTTP; kept: whether it is that in JSON-RPC, too, where most errors are said
    with 200. code: JSON-RPC's. status: gRPC's word.
    """

    http: int
    kept: bool
    code: int
    status: str
    message: str
    details: list[dict[str, Any]]
    headers: Mapping[str, str]

    @property
    def as_rpc(self) -> dict[str, Any]:
        """As JSON-RPC has it."""
        return {"code": self.code, "message": self.message, "data": self.details}

    @property
    def as_rest(self) -> dict[str, Any]:
        """As the HTTP binding has it."""
        return {"error": {"code": self.http, "status": self.status, "message": self.message, "details": self.details}}


def refusal_of(problem: Problem) -> Refusal:
    """One of our errors as one of the wire."""
    kind = ERROR_TYPES.get(problem.code) or ERROR_TYPES.get(problem.code.partition(".")[0], InternalError)
    known = A2A_ERROR_MAPPING[kind]
    kept = problem.status in _HTTP_STATUSES or problem.status >= 500
    status, reason = _GRPC_STATUSES.get(problem.status, (known.grpc_status, known.reason))
    metadata = {"code": problem.code, "fix": problem.fix, "requestId": problem.request_id}
    message = f"{problem.problem} {problem.fix}".rstrip()
    details = [_info(reason, metadata, DOMAIN if problem.status in _GRPC_STATUSES else A2A_DOMAIN)]
    if kind is InvalidParamsError and problem.where:
        details.append(_violation(".".join(map(str, problem.where)), problem.problem))
    code = ACCESS_CODE if problem.status in (401, 403, 429) else JSON_RPC_ERROR_CODE_MAP[kind]
    return Refusal(problem.status if kept else known.http_code, kept, code, status, message, details, problem.headers)


def protocol_refusal(error: A2AError, request_id: str) -> Refusal:
    """One of the protocol's errors as one of the wire."""
    kind = type(error)
    known = A2A_ERROR_MAPPING[InvalidRequestError if kind is JSONParseError else kind]
    data = error.data if isinstance(error.data, dict) else {}
    metadata = {name: value for name, value in data.items() if isinstance(value, str)} | {"requestId": request_id}
    details = [_info(known.reason, metadata, A2A_DOMAIN)]
    for violation in data.get("errors", ()):
        details.append(_violation(violation["field"], violation["message"]))
    return Refusal(known.http_code, False, JSON_RPC_ERROR_CODE_MAP[kind], known.grpc_status, error.message, details, {})


def rpc_response(refusal: Refusal, id_: str | int | float | None = None) -> Response:
    """The answer to a call that has this id."""
    body = {"jsonrpc": "2.0", "id": id_, "error": refusal.as_rpc}
    return JSONResponse(body, refusal.http if refusal.kept else 200, dict(refusal.headers))


def rest_response(refusal: Refusal) -> Response:
    """The same in the HTTP binding."""
    return JSONResponse(refusal.as_rest, refusal.http, dict(refusal.headers))


def rpc_error_response(problem: Problem) -> Response:
    """The answer to a request that is no call yet."""
    return rpc_response(refusal_of(problem))


def rest_error_response(problem: Problem) -> Response:
    """The same in the HTTP binding."""
    return rest_response(refusal_of(problem))


def _info(reason: str, metadata: dict[str, str], domain: str) -> dict[str, Any]:
    told = {name: value for name, value in metadata.items() if value}
    return {"@type": ERROR_INFO_TYPE, "reason": reason, "domain": domain, "metadata": told}


def _violation(field: str, description: str) -> dict[str, Any]:
    return {"@type": BAD_REQUEST_TYPE, "fieldViolations": [{"field": field, "description": description}]}
