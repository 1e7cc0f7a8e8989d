"""Whatever goes wrong with a request, as one value that each protocol writes in its own form."""

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from turnwise.facts.errors import Forbidden, RequestInvalid, RequestTimeout, SessionBusy, TooMany
from turnwise.gateway.problems import Problem, RaisedProblem, internal_error_response, problem_of, register_error_handlers
from turnwise.telemetry.metrics import Metrics


def connection(*, closing: bool = False, metrics: Metrics | None = None) -> HTTPConnection:
    front = SimpleNamespace(closing=asyncio.Event(), metrics=metrics)
    if closing:
        front.closing.set()
    app = SimpleNamespace(state=SimpleNamespace(front=front))
    return HTTPConnection({"type": "http", "path": "/x", "headers": [], "app": app, "state": {"request_id": "r1"}})


def test_an_error_with_its_status_headers_and_place() -> None:
    error = RequestInvalid("Wrong.", fix="Right it.", where=("body", "id"))
    assert problem_of(error, connection()) == Problem(422, "request.invalid", "Wrong.", "Right it.", ("body", "id"), "r1", {})
    assert problem_of(TooMany("Too many.", retry_after=2.1), connection()).headers == {"Retry-After": "3"}
    assert problem_of(Forbidden("No."), connection()).where == ()


def test_a_busy_session_of_a_process_that_is_stopped_is_asked_again_elsewhere() -> None:
    busy = SessionBusy("The runner was closed while another process answers.")
    assert (problem_of(busy, connection()).code, problem_of(busy, connection()).status) == ("session.busy", 409)
    closing = problem_of(busy, connection(closing=True))
    assert (closing.code, closing.status, closing.headers) == ("request.closing", 503, {"Retry-After": "1"})


class Body(BaseModel, extra="forbid"):
    number: int
    text: str = ""


def form(problem: Problem) -> Response:
    return JSONResponse(problem._asdict() | {"headers": {}}, problem.status, dict(problem.headers))


async def asked(raised: Exception | None = None, **request: Any) -> httpx.Response:
    """What an application with one route answers."""
    app = FastAPI()
    app.state.front = SimpleNamespace(closing=asyncio.Event(), metrics=None)

    @app.post("/x")
    async def route(body: Body) -> None:
        if raised is not None:
            raise raised

    app.add_api_route("/elsewhere", route, methods=["POST"], include_in_schema=False)
    register_error_handlers(app, lambda _: form)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.request(request.pop("method", "POST"), request.pop("path", "/x"), **request)


GOOD = {"json": {"number": 1}}


@pytest.mark.parametrize(
    ("raised", "request_", "status", "code"),
    [
        (None, GOOD, 200, None),
        (Forbidden("No."), GOOD, 403, "access.forbidden"),
        (RaisedProblem(RequestTimeout("Late.")), GOOD, 408, "request.timeout"),
        (None, {"path": "/y"}, 404, "request.nothing_here"),
        (None, {"method": "GET"}, 405, "request.method"),
        (None, {"content": b"{", "headers": {"Content-Type": "application/json"}}, 422, "request.invalid"),
        (None, {"content": b"\xff", "headers": {"Content-Type": "application/json"}}, 422, "request.invalid"),
    ],
)
async def test_what_is_raised_becomes_an_answer(
    raised: Exception | None, request_: dict[str, Any], status: int, code: str | None
) -> None:
    answer = await asked(raised, **request_)
    assert answer.status_code == status
    assert (answer.json() or {}).get("code") == code


async def test_a_defect_while_a_body_is_read_stays_one() -> None:
    with pytest.raises(ZeroDivisionError):
        await asked(RaisedProblem(ZeroDivisionError()), **GOOD)


async def test_the_first_mistake_in_a_body_and_how_many_there_are() -> None:
    problem = (await asked(json={"number": "secret", "text": 3})).json()
    assert problem["where"] == ["body", "number"]
    assert problem["problem"].startswith("number: Input should be a valid integer")
    assert problem["problem"].endswith(" (Mistakes in all: 2.)")
    assert "secret" not in str(problem)


@pytest.mark.parametrize(
    ("body", "place", "told"),
    [
        ({}, "number", "number: Field required."),
        ({"nmber": 1}, "number", "number: Field required. There is no field 'nmber'. (Mistakes in all: 2.)"),
        ({"text": 3, "nmber": 1}, "number", "number: Field required. There is no field 'nmber'. (Mistakes in all: 3.)"),
        ({"text": 3}, "number", "number: Field required. (Mistakes in all: 2.)"),
        ({"text": 3, "number": 1, "colour": 1}, "colour", "colour: Extra inputs are not permitted. (Mistakes in all: 2.)"),
    ],
)
async def test_a_missing_field_is_told_first_then_one_that_is_not_known(body: dict[str, Any], place: str, told: str) -> None:
    problem = (await asked(json=body)).json()
    assert (problem["where"], problem["problem"]) == (["body", place], told)
    assert problem["fix"] == "See the API reference at /docs."


async def test_json_that_is_said_to_be_something_else() -> None:
    problem = (await asked(content=b'{"number": 1}', headers={"Content-Type": "text/plain"})).json()
    assert problem["problem"] == "The Content-Type of the body is not JSON."
    assert problem["fix"] == "Send the header Content-Type: application/json, if it is."


async def test_where_nothing_is_it_is_told_where_to_look() -> None:
    assert (await asked(path="/y")).json()["fix"] == "See the API reference at /docs."


async def test_what_the_openapi_does_not_describe_is_not_looked_for_there() -> None:
    problem = (await asked(path="/elsewhere", json={})).json()
    assert (problem["code"], problem["fix"]) == ("request.invalid", "")


async def test_what_a_path_takes_is_told() -> None:
    assert (await asked(method="GET")).headers["allow"] == "POST"


async def test_a_defect_says_nothing_of_its_cause_and_is_counted() -> None:
    metrics = Metrics()
    answer = internal_error_response(connection(metrics=metrics), lambda _: form)
    assert (answer.status_code, b'"code":"internal"' in bytes(answer.body)) == (500, True)
    assert b"turnwise_errors_total{" in (await metrics.render())[0]
