"""Renders errors as RUN_ERROR events: the last event of a stream, or alone as the body of a refused request.

AG-UI leaves error codes to the producer; docs/errors.md lists ours.
"""

import json

from starlette.responses import Response

from turnwise.gateway.ag_ui.schema import Wire, event
from turnwise.gateway.problems import Problem


def error_of(problem: Problem) -> Wire:
    """Returns the problem as a run's last event."""
    return event("RUN_ERROR", message=f"{problem.problem} {problem.fix}".rstrip(), code=problem.code)


def error_response(problem: Problem) -> Response:
    """Returns the response to a request that started no run."""
    # ASCII, because a quoted request may hold unpaired surrogates.
    body = json.dumps(error_of(problem), separators=(",", ":"))
    return Response(body, problem.status, dict(problem.headers), "application/json")
