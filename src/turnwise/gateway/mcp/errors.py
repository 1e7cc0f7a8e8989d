"""How what went wrong is written: as errors of JSON-RPC, and as results of tools that say why there is none.

Who asks a tool is mostly a model, which can only mend what it reads; so what a tool refuses is a result with `isError`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, CallToolResult, TextContent
from starlette.responses import JSONResponse, Response

from turnwise.gateway.problems import Problem

REFUSED = -32000
"""The code of what JSON-RPC has none for; `data.code` is ours."""
CODES: Mapping[int, int] = MappingProxyType(
    {400: INVALID_REQUEST, 404: INVALID_PARAMS, 405: METHOD_NOT_FOUND, 422: INVALID_PARAMS, 500: INTERNAL_ERROR}
)
"""By status; any other is `REFUSED`."""
ERROR_META_KEY = "turnwise/error"
"""The key in a result's `_meta` below which stands what programs read of an error."""


def error_response(problem: Problem) -> Response:
    """The answer to a request that does not reach the protocol: who asks may not, sent too much, or no JSON."""
    error = {"code": CODES.get(problem.status, REFUSED), "message": error_text(problem), "data": error_data(problem)}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, problem.status, dict(problem.headers))


def error_of(problem: Problem, code: int | None = None, **more: Any) -> MCPError:
    """The same for a request that did. code: of JSON-RPC, if it is another than usual. more: of its data."""
    return MCPError(
        CODES.get(problem.status, REFUSED) if code is None else code, error_text(problem), error_data(problem) | more
    )


def tool_error(problem: Problem) -> CallToolResult:
    """The same as what a tool gives."""
    said = TextContent(text=error_text(problem))
    return CallToolResult(content=[said], is_error=True, _meta={ERROR_META_KEY: error_data(problem)})


def error_text(problem: Problem) -> str:
    """In words."""
    return f"{problem.problem} {problem.fix}".rstrip()


def error_data(problem: Problem) -> dict[str, Any]:
    """For programs."""
    found: dict[str, Any] = {"code": problem.code, "problem": problem.problem, "fix": problem.fix}
    found |= {"where": list(problem.where)} if problem.where else {}
    seconds = problem.headers.get("Retry-After")
    found |= {"retry_after": int(seconds)} if seconds is not None else {}
    return found | ({"request_id": problem.request_id} if problem.request_id else {})
