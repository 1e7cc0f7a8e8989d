"""Renders errors as the ADK does, `{"detail": …}`, with Turnwise's error code added."""

import json

from starlette.responses import Response

from turnwise.gateway.problems import Problem


def error_response(problem: Problem) -> Response:
    """Returns the error response. A problem with a field is a list, as FastAPI clients expect."""
    message = f"{problem.problem} {problem.fix}".rstrip()
    errors = [{"type": problem.code, "loc": list(problem.where), "msg": message}]
    detail = errors if problem.status == 422 and problem.where else message
    body = {"detail": detail, "code": problem.code}
    # ASCII, because a quoted request may hold unpaired surrogates.
    return Response(json.dumps(body), problem.status, dict(problem.headers), media_type="application/json")


def stream_error(code: str, message: str, at: float) -> bytes:
    """Returns an error as a stream item. at: the current time in seconds."""
    details = {"error_type": code, "error_message": message, "timestamp": at}
    return json.dumps({"error": f"{code}: {message}", "error_details": details}).encode()
