"""Every request has an id: in its answer, in the log, and in what it sets off."""

import re
from typing import Any

import pytest
from asgi_play import answering, asked, doing, request

from turnwise.gateway.middleware.requests import RequestIds
from turnwise.telemetry.logs import log_context

PLAIN = re.compile(r"[A-Za-z0-9._-]{1,64}")


async def test_an_id_is_made_and_known_to_all() -> None:
    seen: list[str] = []

    async def look(scope: Any, receive: Any) -> None:
        seen.extend((scope["state"]["request_id"], log_context().request))

    answer = await asked(RequestIds(doing(look)), request())
    assert [answer.headers["x-request-id"]] * 2 == seen
    assert PLAIN.fullmatch(seen[0])
    assert log_context().request == ""
    assert (await asked(RequestIds(answering()), request())).headers["x-request-id"] != seen[0]


@pytest.mark.parametrize("id_", ["abc", "A.b-c_9", "x" * 64])
async def test_a_plain_id_is_taken(id_: str) -> None:
    assert (await asked(RequestIds(answering()), request("/", ("X-Request-ID", id_)))).headers["x-request-id"] == id_


@pytest.mark.parametrize("id_", ["", "a b", "a\tb", "ä", "x" * 65, "a,b", "a\r\nSet-Cookie: b"])
async def test_any_other_id_is_not_repeated(id_: str) -> None:
    made = (await asked(RequestIds(answering()), request("/", ("X-Request-ID", id_)))).headers["x-request-id"]
    assert PLAIN.fullmatch(made)
    assert made != id_


async def test_a_web_socket_has_one_too() -> None:
    scope = request("/", ("X-Request-ID", "abc"), kind="websocket")
    accepted = (await asked(RequestIds(answering()), scope)).sent[0]
    assert accepted["headers"] == [(b"x-request-id", b"abc")]


async def test_one_that_is_refused_too() -> None:
    async def refused(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.http.response.start", "status": 401, "headers": []})

    answer = await asked(RequestIds(refused), request("/", ("X-Request-ID", "abc"), kind="websocket"))
    assert answer.sent[0]["headers"] == [(b"x-request-id", b"abc")]
