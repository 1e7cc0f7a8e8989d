"""Request parameters that several protocols share."""

from typing import Annotated, Any

from fastapi import Header, Query

IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", description="Requests with the same key are the same request.")
]
User = Annotated[str | None, Query(description="The user's id; the caller if omitted.")]
STREAM: dict[str, Any] = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
"""The OpenAPI entry of a response that may be a stream."""
