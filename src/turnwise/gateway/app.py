"""Builds the gateway as one ASGI application: the protocols' routers below their prefixes, and the middleware."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from turnwise.config.gateway_entries import is_installed
from turnwise.facts.callers import Caller
from turnwise.facts.gateway import Protocols, Switch
from turnwise.gateway import adk, api, graph_chat, openai, openapi
from turnwise.gateway.console import FIXED, console_router
from turnwise.gateway.front import Front, caller_of
from turnwise.gateway.middleware.admission import LocalOnly, PlainTextPaths, RequestBodies
from turnwise.gateway.middleware.requests import AccessLog, OpenRequests, RequestIds, TraceContext
from turnwise.gateway.middleware.responses import (
    CompressedJson,
    HeadRequests,
    PendingRequests,
    ProblemResponses,
    SecurityHeaders,
    ShutdownResponses,
)
from turnwise.gateway.openapi import add_security_schemes, describe
from turnwise.gateway.problems import Form, register_error_handlers


@asynccontextmanager
async def _no_context(_: Front) -> AsyncIterator[None]:
    yield


class Protocol(NamedTuple):
    """A protocol of the gateway."""

    prefix: str
    """The path prefix of its routes."""
    router: APIRouter
    form: Form
    """Writes a problem in the protocol's error format."""
    running: Callable[[Front], AbstractAsyncContextManager[None]] = _no_context
    """A context that is entered as long as the gateway is served."""
    top: APIRouter | None = None
    """Routes outside the prefix."""

    def has(self, path: str) -> bool:
        """Returns whether the path belongs to this protocol."""
        return path == self.prefix or path.startswith(self.prefix + "/")


def protocols(config: Protocols) -> Iterator[Protocol]:
    """Yields the REST API and the protocols that are on; a longer prefix comes before its own prefix."""
    if is_on(config.graph_chat):
        yield Protocol("/api/v1/graph-chat", graph_chat.router, graph_chat.error_response)
    yield Protocol(API, api.router, api.error_response)
    if is_on(config.openai):
        yield Protocol("/v1", openai.router, openai.error_response)
    if is_on(config.adk):
        yield Protocol(adk.PREFIX, adk.router_for(config.adk), adk.error_response)
    if is_on(config.ag_ui):
        from turnwise.gateway import ag_ui  # its models take a while to import

        yield Protocol("/ag-ui", ag_ui.router, ag_ui.error_response)
    if is_on(config.a2a, "a2a"):
        from turnwise.gateway import a2a

        yield Protocol("/a2a/rest", a2a.rest_router, a2a.rest_error_response)
        yield Protocol("/a2a", a2a.rpc_router, a2a.rpc_error_response, a2a.running_pusher, a2a.card_router)
    if is_on(config.mcp, "mcp"):
        from turnwise.gateway import mcp

        endpoint = mcp.Endpoint(config.mcp)
        yield Protocol("/mcp", endpoint.router, mcp.error_response, endpoint.running)


def is_on(switch: Switch, extra: str | None = None) -> bool:
    """Returns whether the protocol is on. `extra` is the extra that it needs, which has to be installed."""
    return switch.on is not False and (extra is None or is_installed(extra))


TITLE, API = "Turnwise", "/api/v1"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
READABLE = ("X-Request-ID", "Retry-After", "ETag", "Content-Disposition", "Content-Range", "Location", "X-Session-ID")
"""Response headers that web pages of other origins may read."""


class _Gateway(FastAPI):
    """An application with an OpenAPI document that describes every property and lists the accepted credentials."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            describe(super().openapi())
        document = super().openapi()
        add_security_schemes(document, self.state.front.config.auth)
        return document


def gateway(front: Front, *, lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]] | None = None) -> FastAPI:
    """Returns the gateway's application.

    The server has to run ASGI's lifespan, and its owner closes the runner.

    Args:
        front: The app and its services.
        lifespan: A context to enter for the application's lifetime.
    """
    enabled, documented = list(protocols(front.config.protocols)), front.config.documentation

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if lifespan is not None:
                await stack.enter_async_context(lifespan(app))
            for each in enabled:
                await stack.enter_async_context(each.running(front))
            yield

    app = _Gateway(
        title=TITLE,
        version=version("turnwise"),
        lifespan=living,
        openapi_url=openapi.OPENAPI if documented else None,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
        redirect_slashes=False,
    )
    app.state.front, app.state.pending = front, PendingRequests()
    for each in enabled:
        app.include_router(each.router, prefix=each.prefix)
        if each.top is not None:
            app.include_router(each.top)
        if each.prefix == API and front.config.console:
            # Routes are built by the first request that passes them: the first page waits for no other protocol's.
            app.include_router(console_router())
    app.include_router(api.root_router)
    if documented:
        app.include_router(openapi.router)
    form_for = error_formatter(enabled)
    register_error_handlers(app, form_for)
    for layer in _middleware(front, app.state.pending, enabled, form_for):
        app.user_middleware.append(layer)
    return app


def error_formatter(enabled: Sequence[Protocol]) -> Callable[[str], Form]:
    """Returns a function that maps a path to its protocol's error format; to the REST API's for any other path."""

    def form_for(path: str) -> Form:
        return next((each.form for each in enabled if each.has(path)), api.error_response)

    return form_for


def _middleware(
    front: Front, pending: PendingRequests, enabled: Sequence[Protocol], form_for: Callable[[str], Form]
) -> Iterator[Middleware]:
    """Yields the middleware, outermost first."""
    config = front.config

    async def count(caller: Caller, size: int) -> None:
        await front.quotas.received(caller, caller.user, size)

    async def count_sent(caller: Caller, size: int) -> None:
        await front.quotas.sent(caller, caller.user, size)

    yield Middleware(RequestIds)
    if front.traced:
        yield Middleware(TraceContext)
    prefixes = [each.prefix for each in enabled]
    yield Middleware(AccessLog, prefixes=prefixes, fixed=(openapi.DOCUMENTATION, openapi.OPENAPI, *FIXED))
    yield Middleware(SecurityHeaders)
    if config.origins:
        # The gateway reads no cookies, so a page never acts with a credential that it does not have.
        yield Middleware(
            CORSMiddleware,
            allow_origins=config.origins,
            allow_methods=METHODS,
            allow_headers=["*"],
            expose_headers=READABLE,
        )
    yield Middleware(CompressedJson)
    yield Middleware(OpenRequests, count=count_sent)
    yield Middleware(ProblemResponses, form_for=form_for)
    yield Middleware(HeadRequests)
    if config.auth is None:
        yield Middleware(LocalOnly, origins=config.origins)
    yield Middleware(PlainTextPaths)
    yield Middleware(ShutdownResponses, pending=pending)
    yield Middleware(
        RequestBodies,
        enter=caller_of,
        count=count,
        json_bytes=config.body_bytes,
        upload_bytes=front.runner.config.limits.blob_bytes,
        seconds=config.request_seconds,
    )
