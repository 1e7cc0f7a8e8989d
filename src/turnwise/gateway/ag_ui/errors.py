"""How AG-UI is told what went wrong: as a RUN_ERROR, in a stream that has begun, or alone as the body of a refusal.

The protocol has codes of each producer's own; ours are those of docs/errors.md.
"""

import json

from starlette.responses import Response

from turnwise.gateway.ag_ui.schema import Wire, event
from turnwise.gateway.problems import Problem


def error_of(problem: Problem) -> Wire:
    """The problem as the last event of a run."""
    return event("RUN_ERROR", message=f"{problem.problem} {problem.fix}".rstrip(), code=problem.code)


def error_response(problem: Problem) -> Response:
    """The answer to a request with that problem: no run was begun."""
    # As ASCII: it may quote what UTF-8 cannot write.
    body = json.dumps(error_of(problem), separators=(",", ":"))
    return Response(body, problem.status, dict(problem.headers), "application/json")
