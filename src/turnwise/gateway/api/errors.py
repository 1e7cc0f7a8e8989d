"""How our own API writes what went wrong: problem details as of RFC 9457, with our code and what to do."""

import json
from collections.abc import Mapping
from types import MappingProxyType

from pydantic import BaseModel, Field
from starlette.responses import Response

from turnwise.gateway.api.openapi import Responses
from turnwise.gateway.problems import Problem

MEDIA_TYPE = "application/problem+json"


class ProblemDetails(BaseModel):
    """What went wrong. `code` is stable, `fix` says what to do, `request_id` is in the gateway's log."""

    type: str = Field(examples=["urn:turnwise:error:session.missing"])
    title: str
    status: int
    code: str = Field(examples=["session.missing"])
    fix: str = ""
    where: list[str | int] = Field(default=[], description="The place in the request; empty = the whole.")
    request_id: str = ""


def details_of(problem: Problem) -> ProblemDetails:
    """The problem as a value of the wire."""
    return ProblemDetails(
        type=f"urn:turnwise:error:{problem.code}",
        title=problem.problem,
        status=problem.status,
        code=problem.code,
        fix=problem.fix,
        where=list(problem.where),
        request_id=problem.request_id,
    )


def form(problem: Problem) -> Response:
    """The answer to a request with that problem."""
    # As ASCII: the place may be a key of the request that UTF-8 cannot write.
    body = json.dumps(details_of(problem).model_dump(), separators=(",", ":"))
    return Response(body, problem.status, dict(problem.headers), MEDIA_TYPE)


def problems(*statuses: int, body: bool = False) -> Responses:
    """What the OpenAPI says of those statuses, and of those that any route may give; body: it reads one."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    every = sorted({*statuses, *_ALWAYS, *(_WITH_BODY if body else ())})
    return {status: {"model": ProblemDetails, "description": _NAMES[status], "content": content} for status in every}


_ALWAYS = (400, 401, 403, 422, 429, 500, 503)
_WITH_BODY = (408, 413, 507)
_NAMES: Mapping[int, str] = MappingProxyType(
    {
        400: "The request cannot be read.",
        401: "No credential, or none that counts.",
        403: "The credential may not do that.",
        404: "There is no such thing, or it is somebody else's.",
        408: "It did not come in time.",
        409: "It cannot be done now.",
        412: "It has changed since the revision that `If-Match` names.",
        413: "Too large.",
        416: "There is no such range; `Content-Range` says how large it is.",
        422: "The request is wrong; `where` says at which place.",
        429: "Too much in this time; `Retry-After` says when to come again.",
        500: "A defect of the gateway; its log has it under the `request_id`.",
        502: "The model gave no answer.",
        503: "Not now; `Retry-After` says when to come again.",
        507: "There is no space left.",
    }
)
