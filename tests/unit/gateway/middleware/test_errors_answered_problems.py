"""Whatever is raised, inside and around the routes, becomes an answer in the form of the path's protocol."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from asgi_play import asked, doing, request
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response

from turnwise.facts.errors import Forbidden, RequestTooLarge
from turnwise.gateway.middleware.responses import ProblemResponses
from turnwise.gateway.problems import Problem
from turnwise.telemetry.metrics import Metrics


def form(problem: Problem) -> Response:
    return PlainTextResponse(f"{problem.code} {problem.request_id} {problem.problem}", problem.status, dict(problem.headers))


def raising(error: Exception, *, begin: bool = False) -> ProblemResponses:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if begin:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise error

    return ProblemResponses(app, lambda path: form if path == "/x" else pytest.fail(path))


def scope(metrics: Metrics | None = None, kind: str = "http") -> Any:
    front = SimpleNamespace(metrics=metrics)
    made = request("/x", kind=kind)
    return {**made, "state": {"request_id": "r1"}, "app": SimpleNamespace(state=SimpleNamespace(front=front))}


async def test_errors_of_ours_are_written_by_the_form_of_the_path_and_counted() -> None:
    metrics = Metrics()
    answer = await asked(raising(RequestTooLarge("Too large.")), scope(metrics))
    assert (answer.status, answer.body) == (413, b"request.too_large r1 Too large.")
    assert b'turnwise_errors_total{code="request.too_large"} 1.0' in (await metrics.render())[0]


async def test_a_defect_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    answer = await asked(raising(ValueError("secret")), scope())
    assert (answer.status, answer.body) == (500, b"internal r1 This is a defect of the gateway.")
    assert [(each.levelno, str(each.exc_info and each.exc_info[1])) for each in caplog.records] == [(logging.ERROR, "secret")]


async def test_an_answer_that_has_begun_is_not_begun_again(caplog: pytest.LogCaptureFixture) -> None:
    answer = await asked(raising(ValueError("secret"), begin=True), scope())
    assert [message["type"] for message in answer.sent] == ["http.response.start"]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("begin", [False, True])
async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_defect(
    begin: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "turnwise.gateway")
    metrics = Metrics()
    answer = await asked(raising(ClientDisconnect(), begin=begin), scope(metrics))
    assert len(answer.sent) == begin
    assert [(each.levelno, each.exc_info) for each in caplog.records] == [(logging.INFO, None)]
    assert b'code="internal"' not in (await metrics.render())[0]


@pytest.mark.parametrize(("error", "code"), [(Forbidden("No."), 1008), (ValueError("secret"), 1011)])
async def test_a_web_socket_is_closed(error: Exception, code: int, caplog: pytest.LogCaptureFixture) -> None:
    answer = await asked(raising(error), scope(kind="websocket"))
    assert answer.sent == [{"type": "websocket.close", "code": code}]
    assert len(caplog.records) == (code == 1011)


async def test_a_web_socket_that_is_closed_stays_so() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise Forbidden("No.")

    async def closed(message: Any) -> None:
        raise RuntimeError("It is closed.")

    async def receive() -> Any: ...

    await ProblemResponses(app, lambda _: form)(scope(kind="websocket"), receive, closed)


async def test_what_goes_well_passes() -> None:
    async def nothing(scope: Any, receive: Any) -> None: ...

    assert (await asked(ProblemResponses(doing(nothing), lambda _: form), scope())).status == 200
