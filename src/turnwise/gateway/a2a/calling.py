"""What both bindings do with a request: who asks, in which version; and streams as they are written."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from a2a import types as wire
from a2a.server.context import ServerCallContext
from a2a.utils.errors import A2AError
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.message import Message
from starlette.requests import Request
from starlette.responses import Response

from turnwise.facts.callers import Caller
from turnwise.facts.errors import Closing, TurnwiseError
from turnwise.gateway.a2a.asking import Asking, context_of
from turnwise.gateway.a2a.methods import Method
from turnwise.gateway.a2a.reading import check_type
from turnwise.gateway.a2a.refusals import Refusal, protocol_refusal, refusal_of
from turnwise.gateway.a2a.telling import Told
from turnwise.gateway.a2a.values import listed, plain
from turnwise.gateway.a2a.versions import HEADER, check_version
from turnwise.gateway.front import Front, view_of
from turnwise.gateway.problems import problem_of, request_id_of
from turnwise.gateway.sse import streamed

Write = Callable[[dict[str, Any] | Refusal], bytes]


def asked(request: Request, front: Front, caller: Caller, user: str | None) -> ServerCallContext:
    """The context of the operation that the request asks for."""
    return context_of(Asking(caller, view_of(request), user, base_of(request, front)))


def base_of(request: Request, front: Front) -> str:
    """The URL of this gateway for who asks, without a slash at the end."""
    return front.config.public_url or str(request.base_url).rstrip("/")


def check_content(request: Request) -> None:
    """Whether its body can be read. ContentTypeNotSupportedError."""
    check_type(request.headers.get("content-type"))


def check_spoken(request: Request) -> None:
    """Whether it is in a version that is spoken here. VersionNotSupportedError."""
    check_version(request.headers.get(HEADER) or request.query_params.get(HEADER))


def refused(error: Exception, request: Request, front: Front) -> Refusal:
    """What was raised, as an error of the wire; it is counted. Raises what is no error of ours or of the protocol's."""
    if isinstance(error, TurnwiseError):
        problem = problem_of(error, request)
        refusal, code = refusal_of(problem), problem.code
    elif isinstance(error, A2AError):
        refusal, code = protocol_refusal(error, request_id_of(request)), f"a2a.{type(error).__name__}"
    else:
        raise error
    if front.metrics is not None:
        front.metrics.count_error(code)
    return refusal


def written(told: Message | None, method: Method) -> dict[str, Any] | None:
    """An answer as JSON. None stays None."""
    if told is None:
        return None
    if method.params is wire.SendMessageRequest:
        field = "task" if isinstance(told, wire.Task) else "message"
        return {field: plain(told)}
    body: dict[str, Any] = listed(told) if isinstance(told, wire.ListTasksResponse) else plain(told)
    return body


async def stream(told: AsyncGenerator[Told], request: Request, front: Front, write: Write, *, again: str) -> Response:
    """The response that writes what is told; what is raised before the first of it is raised here. again: what to ask for to
    come again when this process is stopped.
    """
    first = await anext(told)
    closing = Closing("This process is being stopped.", fix=f"Ask again, for {again}.")
    hint = write(refusal_of(problem_of(closing, request)))
    items = _written(first, told, request, front)
    return streamed(items, write, ping=front.config.stream_ping_seconds, closing=front.closing, hint=hint)


async def _written(
    first: Told, rest: AsyncGenerator[Told], request: Request, front: Front
) -> AsyncIterator[dict[str, Any] | Refusal]:
    async with aclosing(rest):
        yield plain(to_stream_response(first))
        try:
            async for told in rest:
                yield plain(to_stream_response(told))
        except (A2AError, TurnwiseError) as error:
            yield refused(error, request, front)
