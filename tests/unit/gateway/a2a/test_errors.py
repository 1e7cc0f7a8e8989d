"""How errors are written: each of ours has a place in the protocol."""

import json

import pytest
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, InvalidParamsError, JSONParseError

from turnwise.facts import errors
from turnwise.facts.errors import TurnwiseError
from turnwise.gateway.a2a.errors import Refusal, protocol_refusal, refusal_of, rest_error_response, rpc_error_response
from turnwise.gateway.problems import Problem, headers_of, status_of

CODES = sorted(
    {each.code for each in vars(errors).values() if isinstance(each, type) and issubclass(each, TurnwiseError)} | {"internal"}
)


def problem(code: str, where: tuple[str | int, ...] = ()) -> Problem:
    headers = headers_of(errors.TooMany("x")) if code == "access.too_many" else {}
    return Problem(status_of(code), code, "It is so.", "Do this.", where, "r-1", headers)


@pytest.mark.parametrize("code", CODES)
def test_every_error_of_ours_is_one_of_the_wire(code: str) -> None:
    refusal = refusal_of(problem(code))
    assert refusal.message == "It is so. Do this."
    assert refusal.code in {*JSON_RPC_ERROR_CODE_MAP.values(), -32000}
    assert refusal.http >= 400
    assert refusal.details[0]["metadata"] == {"code": code, "fix": "Do this.", "requestId": "r-1"}
    assert (refusal.http >= 500) == (status_of(code) >= 500)
    assert refusal.keeps_status or refusal.http in (400, 404)


@pytest.mark.parametrize(
    ("code", "rpc", "http", "reason"),
    [
        ("access.unauthenticated", -32000, 401, "UNAUTHENTICATED"),
        ("access.forbidden", -32000, 403, "PERMISSION_DENIED"),
        ("access.too_many", -32000, 429, "RATE_LIMITED"),
        ("session.queue_full", -32000, 429, "RATE_LIMITED"),
        ("session.missing", -32001, 404, "TASK_NOT_FOUND"),
        ("session.invocation_missing", -32001, 404, "TASK_NOT_FOUND"),
        ("session.busy", -32004, 400, "UNSUPPORTED_OPERATION"),
        ("message.empty", -32602, 400, "INVALID_PARAMS"),
        ("message.too_large", -32602, 413, "INVALID_PARAMS"),
        ("request.invalid", -32602, 400, "INVALID_PARAMS"),
        ("request.too_large", -32600, 413, "INVALID_REQUEST"),
        ("request.nothing_here", -32601, 404, "METHOD_NOT_FOUND"),
        ("request.closing", -32603, 503, "UNAVAILABLE"),
        ("store.unavailable", -32603, 503, "UNAVAILABLE"),
        ("internal", -32603, 500, "INTERNAL_ERROR"),
    ],
)
def test_the_table(code: str, rpc: int, http: int, reason: str) -> None:
    refusal = refusal_of(problem(code))
    assert (refusal.code, refusal.http, refusal.details[0]["reason"]) == (rpc, http, reason)


def test_the_place_is_named() -> None:
    (_, bad) = refusal_of(problem("request.invalid", ("message", "parts", 0))).details
    assert bad["fieldViolations"] == [{"field": "message.parts.0", "description": "It is so."}]


def test_errors_of_the_protocols_own() -> None:
    for kind, code in JSON_RPC_ERROR_CODE_MAP.items():
        refusal = protocol_refusal(kind("So."), "r-1")
        assert (refusal.code, refusal.message, refusal.keeps_status) == (code, "So.", False)
        assert refusal.details[0]["domain"] == "a2a-protocol.org"
    told = protocol_refusal(InvalidParamsError("So.", data={"errors": [{"field": "f", "message": "missing"}], "n": 1}), "r-1")
    assert told.details[0]["metadata"] == {"requestId": "r-1"}
    assert told.details[1]["fieldViolations"] == [{"field": "f", "description": "missing"}]
    assert protocol_refusal(JSONParseError(), "").http == 400


def test_the_forms() -> None:
    rpc, rest = rpc_error_response(problem("access.too_many")), rest_error_response(problem("access.too_many"))
    assert (rpc.status_code, rest.status_code) == (429, 429)
    assert rpc.headers["Retry-After"] == rest.headers["Retry-After"] == "1"
    assert json.loads(bytes(rpc.body)).keys() == {"jsonrpc", "id", "error"}
    assert json.loads(bytes(rest.body))["error"].keys() == {"code", "status", "message", "details"}
    assert rpc_error_response(problem("request.invalid")).status_code == 200
    assert isinstance(refusal_of(problem("internal")), Refusal)
