"""What comes beside the body of a request."""

from typing import Annotated, Any

from fastapi import Header, Query

Key = Annotated[str | None, Header(alias="Idempotency-Key", description="The same again is the same request.")]
User = Annotated[str | None, Query(description="Whose it is; by default the caller's.")]
STREAM: dict[str, Any] = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
"""What the OpenAPI says of an answer that may come as a stream."""
