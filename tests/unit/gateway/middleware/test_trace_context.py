"""What a request sets off belongs to the trace that its headers name."""

from typing import Any

from asgi_play import asked, doing, request
from opentelemetry import trace

from turnwise.gateway.middleware.requests import TraceContext

TRACE = "0af7651916cd43dd8448eb211c80319c"


async def test_the_callers_trace_is_joined() -> None:
    seen: list[str] = []

    async def look(scope: Any, receive: Any) -> None:
        seen.append(f"{trace.get_current_span().get_span_context().trace_id:032x}")

    app = TraceContext(doing(look))
    await asked(app, request("/", ("traceparent", f"00-{TRACE}-b7ad6b7169203331-01")))
    await asked(app, request("/", ("traceparent", "nonsense")))
    await asked(app, {"type": "lifespan"})
    assert seen == [TRACE, "0" * 32, "0" * 32]
