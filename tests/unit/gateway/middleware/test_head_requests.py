"""HEAD is answered wherever GET is."""

import asyncio
from typing import Any

import pytest
from asgi_play import answering, asked, request
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from turnwise.gateway.middleware.responses import HeadRequests
from turnwise.gateway.problems import accepts_method


async def nothing(_: Request) -> Response:
    return PlainTextResponse("")


ROUTES = Starlette(routes=[Route("/posted", nothing, methods=["POST"]), Route("/both", nothing), Route("/{got}", nothing)])
for route in ROUTES.routes[2:]:
    route.methods.discard("HEAD")  # type: ignore[attr-defined]


def head(path: str = "/x", **more: Any) -> Scope:
    return {**request(path, method="HEAD"), "app": ROUTES, **more}


def test_what_a_path_takes() -> None:
    assert [accepts_method(head("/both"), method) for method in ("GET", "HEAD", "POST")] == [True, True, False]
    assert [accepts_method(head("/x"), method) for method in ("GET", "HEAD", "POST")] == [True, False, False]


async def test_it_is_asked_as_get_and_the_body_is_left_out() -> None:
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = "the route"
        seen.append(scope["method"])
        await answering(418, ("Content-Length", "2"))(scope, receive, send)

    scope = head()
    answer = await asked(HeadRequests(app), scope)
    assert (answer.status, answer.headers, answer.body) == (418, {"content-length": "2"}, b"")
    assert (seen, scope["method"], scope["route"]) == (["GET"], "HEAD", "the route")


@pytest.mark.parametrize("path", ["/both", "/posted/x"])
async def test_a_head_of_its_own_and_a_path_without_get_are_left_alone(path: str) -> None:
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["method"])
        await answering()(scope, receive, send)

    await asked(HeadRequests(app), head(path))
    assert seen == ["HEAD"]


async def test_a_stream_ends_with_its_headers() -> None:
    ended = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Type", b"text/event-stream")]})
            await asyncio.Event().wait()
        finally:
            ended.set()

    answer = await asked(HeadRequests(app), head())
    assert (answer.status, [each["type"] for each in answer.sent]) == (200, ["http.response.start", "http.response.body"])
    assert ended.is_set()


async def test_what_is_raised_passes_and_so_does_being_cancelled() -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise KeyError("x")

    async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    with pytest.raises(KeyError):
        await asked(HeadRequests(failing), head())
    task = asyncio.create_task(asked(HeadRequests(waiting), head()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
