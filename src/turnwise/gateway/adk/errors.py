"""How the ADK's door writes what went wrong: `{"detail": …}`, as the ADK does, with our code beside it."""

import json

from starlette.responses import Response

from turnwise.gateway.problems import Problem


def error_response(problem: Problem) -> Response:
    """The answer to a request with that problem. A place is told in a list, as clients of such servers know it."""
    said = f"{problem.problem} {problem.fix}".rstrip()
    listed = [{"type": problem.code, "loc": list(problem.where), "msg": said}]
    detail = listed if problem.status == 422 and problem.where else said
    told = {"detail": detail, "code": problem.code}
    # Half a letter of a request can stand in ASCII alone.
    return Response(json.dumps(told), problem.status, dict(problem.headers), media_type="application/json")


def stream_error(code: str, said: str, at: float) -> bytes:
    """The same in a stream that has begun. at: now, in seconds."""
    details = {"error_type": code, "error_message": said, "timestamp": at}
    return json.dumps({"error": f"{code}: {said}", "error_details": details}).encode()
