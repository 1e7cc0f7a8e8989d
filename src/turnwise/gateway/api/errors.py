"""Writes errors of the REST API as problem details (RFC 9457), with Turnwise's error code and a fix."""

import json
from collections.abc import Mapping
from types import MappingProxyType

from pydantic import BaseModel, Field
from starlette.responses import Response

from turnwise.gateway.openapi import Responses
from turnwise.gateway.problems import Problem

MEDIA_TYPE = "application/problem+json"


class Mistake(BaseModel):
    """One mistake of a definition."""

    code: str = Field(examples=["config.pattern"])
    title: str
    fix: str = ""


class ProblemDetails(BaseModel):
    """An error. `code` is stable, `fix` tells how to solve it, and the gateway's log contains `request_id`."""

    type: str = Field(examples=["urn:turnwise:error:session.missing"])
    title: str
    status: int
    code: str = Field(examples=["session.missing"])
    fix: str = ""
    where: list[str | int] = Field(default=[], description="The path of the invalid field; empty for the whole request.")
    request_id: str = ""
    mistakes: list[Mistake] = Field(default=[], description="All mistakes of a definition; else empty.")


def details_of(problem: Problem) -> ProblemDetails:
    """Returns the problem as a response body."""
    return ProblemDetails(
        type=f"urn:turnwise:error:{problem.code}",
        title=problem.problem,
        status=problem.status,
        code=problem.code,
        fix=problem.fix,
        where=list(problem.where),
        request_id=problem.request_id,
        mistakes=[Mistake(code=each.code, title=each.problem, fix=each.fix) for each in problem.mistakes],
    )


def error_response(problem: Problem) -> Response:
    """Returns the HTTP response for the problem."""
    # ASCII escapes: `where` may contain a key from the request that UTF-8 cannot encode.
    body = json.dumps(details_of(problem).model_dump(exclude=None if problem.mistakes else {"mistakes"}), separators=(",", ":"))
    return Response(body, problem.status, dict(problem.headers), MEDIA_TYPE)


def problems(*statuses: int, body: bool = False) -> Responses:
    """Returns the OpenAPI entries for these error statuses and for those that any route may return.

    Args:
        statuses: The statuses that are specific to the route.
        body: Whether the route reads a request body, which adds the statuses of body errors.
    """
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    every = sorted({*statuses, *_ALWAYS, *(_WITH_BODY if body else ())})
    return {status: {"model": ProblemDetails, "description": _NAMES[status], "content": content} for status in every}


_ALWAYS = (400, 401, 403, 422, 429, 500, 503)
_WITH_BODY = (408, 413, 507)
_NAMES: Mapping[int, str] = MappingProxyType(
    {
        400: "The request cannot be parsed.",
        401: "The credential is missing or invalid.",
        403: "The credential does not permit this, or the user has as much as one user may have.",
        404: "The resource does not exist or belongs to another user.",
        408: "The request body did not arrive in time.",
        409: "The current state of the resource does not allow this.",
        412: "The resource no longer has the revision that `If-Match` names.",
        413: "The request body is too large.",
        416: "The range does not exist; `Content-Range` gives the size.",
        422: "The request is invalid; `where` names the field.",
        428: "The header `If-Match` is missing.",
        429: "Rate limit exceeded; `Retry-After` gives the delay in seconds.",
        500: "Internal error; the gateway's log has the cause under the `request_id`.",
        502: "The model returned no answer.",
        503: "Temporarily unavailable; `Retry-After` gives the delay in seconds.",
        507: "The storage is full.",
    }
)
