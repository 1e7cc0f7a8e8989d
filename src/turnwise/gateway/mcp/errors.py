"""Renders errors as JSON-RPC errors, and as tool results.

A tool's caller is usually a model, which can only correct what it reads. A refused tool call is therefore a result with
`isError`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, CallToolResult, TextContent
from starlette.responses import JSONResponse, Response

from turnwise.gateway.problems import Problem

REFUSED = -32000
"""The JSON-RPC code of errors that have none of their own. `data.code` holds Turnwise's code."""
CODES: Mapping[int, int] = MappingProxyType(
    {400: INVALID_REQUEST, 404: INVALID_PARAMS, 405: METHOD_NOT_FOUND, 422: INVALID_PARAMS, 500: INTERNAL_ERROR}
)
"""JSON-RPC codes by HTTP status; any other status maps to `REFUSED`."""
ERROR_META_KEY = "turnwise/error"
"""The key of the error data in a result's `_meta`."""


def error_response(problem: Problem) -> Response:
    """Returns the HTTP response to a request that fails before it reaches the protocol."""
    error = {"code": CODES.get(problem.status, REFUSED), "message": error_text(problem), "data": error_data(problem)}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, problem.status, dict(problem.headers))


def error_of(problem: Problem, code: int | None = None, **more: Any) -> MCPError:
    """Returns the problem as a JSON-RPC error. code: overrides the default code. more: further fields of its data."""
    return MCPError(
        CODES.get(problem.status, REFUSED) if code is None else code, error_text(problem), error_data(problem) | more
    )


def tool_error(problem: Problem) -> CallToolResult:
    """Returns the problem as a tool result."""
    content = TextContent(text=error_text(problem))
    return CallToolResult(content=[content], is_error=True, _meta={ERROR_META_KEY: error_data(problem)})


def error_text(problem: Problem) -> str:
    """Returns the problem and its fix as text."""
    return f"{problem.problem} {problem.fix}".rstrip()


def error_data(problem: Problem) -> dict[str, Any]:
    """Returns the problem for programs."""
    data: dict[str, Any] = {"code": problem.code, "problem": problem.problem, "fix": problem.fix}
    data |= {"where": list(problem.where)} if problem.where else {}
    seconds = problem.headers.get("Retry-After")
    data |= {"retry_after": int(seconds)} if seconds is not None else {}
    return data | ({"request_id": problem.request_id} if problem.request_id else {})
