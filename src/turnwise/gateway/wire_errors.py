"""The one table from our error codes to HTTP: what each is as a status. How it is written is each protocol's own."""

import math
from collections.abc import Mapping
from types import MappingProxyType

from turnwise.facts.errors import ModelUnavailable, NoSuchRange, StoreUnavailable, TooMany, TurnwiseError

INTERNAL = "internal"
"""The code of what is a defect of ours; its cause is in the log, under the request's id, and nowhere else."""

STATUS: Mapping[str, int] = MappingProxyType(
    {
        "access": 403,
        "access.unauthenticated": 401,
        "access.forbidden": 403,
        "access.too_many": 429,
        "request": 400,
        "request.invalid": 422,
        "request.too_large": 413,
        "request.timeout": 408,
        "request.nothing_here": 404,
        "request.method": 405,
        "request.range": 416,
        "request.key_reused": 422,
        "request.precondition": 412,
        "request.not_ready": 503,
        "request.closing": 503,
        "message": 422,
        "message.too_large": 413,
        "message.unknown_tool_call": 409,
        "message.nobody_eligible": 409,
        "session": 409,
        "session.missing": 404,
        "session.invocation_missing": 404,
        "session.queue_full": 429,
        "artifact": 422,
        "artifact.too_large": 413,
        "store": 503,
        "store.full": 507,
        "store.cursor": 422,
        "model": 502,
        "model.unavailable": 503,
        "encoder": 503,
        "limit": 429,
        INTERNAL: 500,
    }
)
"""A code that is not here has the status of its branch, the part before the dot; a branch that is not here has 500."""

RETRY_SECONDS = 1.0


def status_of(code: str) -> int:
    """The HTTP status of an error with that code."""
    return STATUS.get(code) or STATUS.get(code.partition(".")[0]) or 500


def retry_after(error: TurnwiseError) -> int | None:
    """Whole seconds after which it is worth trying again; None when that does not help."""
    if isinstance(error, TooMany):
        return math.ceil(error.retry_after)
    if isinstance(error, ModelUnavailable) and error.retry_after is not None:
        return math.ceil(error.retry_after)
    if isinstance(error, StoreUnavailable) or status_of(error.code) in {429, 503}:
        return math.ceil(RETRY_SECONDS)
    return None


def headers_of(error: TurnwiseError) -> dict[str, str]:
    """The headers that go with it, whatever the form of the body."""
    headers = {}
    if (seconds := retry_after(error)) is not None:
        headers["Retry-After"] = str(seconds)
    if status_of(error.code) == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, NoSuchRange):
        headers["Content-Range"] = f"bytes */{error.size}"
    return headers
