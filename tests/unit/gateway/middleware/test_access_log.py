"""A line for every request, with nothing in it that is secret or a user's."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from asgi_play import answering, asked, doing, request

from turnwise.facts.callers import Caller
from turnwise.gateway.middleware.requests import AccessLog

LOGGER = "turnwise.gateway.access"


def logged(app: Any) -> AccessLog:
    return AccessLog(app, prefixes=["/api/v1"], fixed=["/docs"])


def routed(path: str, status: int = 200) -> Any:
    """An application whose route has that template."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope["route"] = SimpleNamespace(path=path)
        scope["state"]["caller"] = Caller(id="key-1")
        await answering(status)(scope, receive, send)

    return app


async def test_the_paths_template_is_told_and_who_asked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    scope = request("/api/v1/sessions/secret", ("Authorization", "Bearer secret"), query=b"q=secret")
    await asked(logged(routed("/sessions/{session_id}", 404)), scope)
    (line,) = caplog.records
    assert line.getMessage().startswith("POST /api/v1/sessions/{session_id} 404 in ")
    assert {name: getattr(line, name) for name in ("method", "path", "status", "caller")} == {
        "method": "POST",
        "path": "/api/v1/sessions/{session_id}",
        "status": 404,
        "caller": "key-1",
    }
    assert "secret" not in str(line.__dict__)


@pytest.mark.parametrize(
    ("path", "told"), [("/api/v1/secret", "/api/v1/…"), ("/secret", "/…"), ("/docs", "/docs"), ("/api/v1", "/api/v1")]
)
async def test_what_no_route_is_for_is_not_told(path: str, told: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    await asked(logged(answering(404)), request(path))
    assert caplog.records[0].getMessage().startswith(f"POST {told} 404 in ")


async def test_who_left_and_who_stayed_on_a_web_socket(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)

    async def fails(scope: Any, receive: Any) -> None:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        await asked(logged(doing(fails)), request())
    await asked(logged(answering()), request(kind="websocket"))
    assert [record.getMessage().split(" in ")[0] for record in caplog.records] == ["POST /… 499", "POST /… 101"]


async def test_what_machines_ask_is_told_when_it_goes_wrong(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    await asked(logged(routed("/health")), request("/api/v1/health"))
    await asked(logged(routed("/ready", 503)), request("/api/v1/ready"))
    assert [record.getMessage().split(" in ")[0] for record in caplog.records] == ["POST /api/v1/ready 503"]


async def test_a_web_socket_that_is_refused_has_the_answers_status(caplog: pytest.LogCaptureFixture) -> None:
    """The route of one knows its whole path."""
    caplog.set_level(logging.INFO, LOGGER)

    async def refused(scope: Any, receive: Any, send: Any) -> None:
        scope["route"] = SimpleNamespace(path="/api/v1/talk")
        await send({"type": "websocket.http.response.start", "status": 401, "headers": []})

    await asked(logged(refused), request("/api/v1/talk", kind="websocket"))
    assert caplog.records[0].getMessage().startswith("POST /api/v1/talk 401 in ")
