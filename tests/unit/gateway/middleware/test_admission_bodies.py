"""Bodies come from somebody who may enter, in time, not too large, and are counted."""

import asyncio
from typing import Any

import pytest
from asgi_play import Header, answering, asked, doing, request

from turnwise.facts.callers import Caller
from turnwise.facts.errors import NotAuthenticated, RequestTimeout, RequestTooLarge, TooMany
from turnwise.gateway.middleware.admission import RequestBodies
from turnwise.gateway.problems import RaisedProblem

ANN = Caller(id="ann", user="ann")
JSON = ("Content-Type", "application/json")


class Desk:
    """Notes who entered, and what was counted; refuses what it is told to."""

    def __init__(self, *, refuse: Exception | None = None, most: int = 1_000_000) -> None:
        self.entered = self.counted = 0
        self.read: list[bytes] = []
        self._refuse, self._most = refuse, most

    async def enter(self, connection: Any) -> Caller:
        self.entered += 1
        if self._refuse is not None:
            raise self._refuse
        return ANN

    async def count(self, caller: Caller, size: int) -> None:
        assert caller is ANN
        if self.counted + size > self._most:
            raise TooMany("Too many bytes.")
        self.counted += size

    async def _read(self, scope: Any, receive: Any) -> None:
        while True:
            message = await receive()
            self.read.append(message.get("body", b""))
            if not message.get("more_body"):
                return

    def app(self, *, seconds: float = 30.0) -> RequestBodies:
        return RequestBodies(doing(self._read), self.enter, self.count, json_bytes=10, upload_bytes=20, seconds=seconds)

    async def gets(self, *body: bytes, headers: tuple[Header, ...] = (JSON, ("Transfer-Encoding", "chunked"))) -> int:
        return (await asked(self.app(), request("/", *headers), body)).status


def announcing(size: int, *more: Header) -> tuple[Header, ...]:
    return (("Content-Length", str(size)), *more)


async def problem(desk: Desk, *body: bytes, headers: tuple[Header, ...] = (JSON, ("Transfer-Encoding", "chunked"))) -> Any:
    with pytest.raises(RaisedProblem) as raised:
        await desk.gets(*body, headers=headers)
    return raised.value.error


async def test_a_body_is_read_by_somebody_who_entered_once_and_counted() -> None:
    desk = Desk()
    assert await desk.gets(b"abc", b"", b"defg") == 200
    assert (b"".join(desk.read), desk.entered, desk.counted) == (b"abcdefg", 1, 7)


async def test_what_is_announced_is_counted_before_it_comes() -> None:
    desk = Desk(most=3)
    assert isinstance(await problem(desk, b"abcd", headers=announcing(4, JSON)), TooMany)
    assert desk.read == []
    assert await desk.gets(b"abc", headers=announcing(3, JSON)) == 200
    assert desk.counted == 3


async def test_what_is_not_announced_is_counted_as_it_comes() -> None:
    desk = Desk(most=5)
    assert isinstance(await problem(desk, b"abc", b"def", b"ghi"), TooMany)
    assert desk.read == [b"abc"]


async def test_of_who_may_not_enter_nothing_is_read() -> None:
    desk = Desk(refuse=NotAuthenticated("Who?"))
    assert isinstance(await problem(desk, b"abc"), NotAuthenticated)
    assert (desk.read, desk.counted) == ([], 0)


async def test_a_defect_of_ours_is_not_taken_for_a_mistake_of_the_body() -> None:
    assert isinstance(await problem(Desk(refuse=ZeroDivisionError()), b"abc"), ZeroDivisionError)


@pytest.mark.parametrize("kind", [(), (JSON,), (("Content-Type", "application/problem+json; charset=utf-8"),)])
async def test_json_has_one_bound(kind: tuple[Header, ...]) -> None:
    chunked = (*kind, ("Transfer-Encoding", "chunked"))
    assert await Desk().gets(b"12345", b"67890", headers=chunked) == 200
    assert isinstance(await problem(Desk(), b"12345", b"678901", headers=chunked), RequestTooLarge)
    announced = Desk()
    assert isinstance(await problem(announced, b"12345678901", headers=announcing(11, *kind)), RequestTooLarge)
    assert announced.entered == 0


async def test_uploads_have_another() -> None:
    image = (("Content-Type", "image/png"), ("Transfer-Encoding", "chunked"))
    assert await Desk().gets(b"x" * 20, headers=image) == 200
    assert isinstance(await problem(Desk(), b"x" * 21, headers=image), RequestTooLarge)


async def test_more_than_was_announced_is_too_large_all_the_same() -> None:
    assert isinstance(await problem(Desk(), b"12345", b"678901", headers=announcing(5, JSON)), RequestTooLarge)


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    async def ignore(message: Any) -> None: ...

    with pytest.raises(RaisedProblem) as raised:
        await Desk().app(seconds=0.01)(request("/", *announcing(3)), never, ignore)
    assert isinstance(raised.value.error, RequestTimeout)


async def test_a_body_that_drips_is_not_waited_for_either() -> None:
    desk, drops = Desk(), 0

    async def drip() -> Any:
        nonlocal drops
        drops += 1
        await asyncio.sleep(0)  # the next drop is there, but never the last
        return {"type": "http.request", "body": b"", "more_body": True}

    async def ignore(message: Any) -> None: ...

    with pytest.raises(RaisedProblem) as raised:
        await desk.app(seconds=0.01)(request("/", ("Transfer-Encoding", "chunked")), drip, ignore)
    assert isinstance(raised.value.error, RequestTimeout)
    assert drops > 1


async def test_nobody_has_to_enter_who_sends_no_body() -> None:
    desk = Desk(refuse=NotAuthenticated("Who?"))
    assert await desk.gets(headers=()) == 200
    assert await desk.gets(headers=announcing(0)) == 200
    assert desk.entered == 0


async def test_after_the_body_comes_only_that_the_reader_left() -> None:
    seen: list[str] = []

    async def listen(scope: Any, receive: Any) -> None:
        seen.extend([(await receive())["type"] for _ in range(2)])

    desk = Desk()
    app = RequestBodies(doing(listen), desk.enter, desk.count, json_bytes=10, upload_bytes=20, seconds=30)
    await asked(app, request("/", *announcing(2)), [b"ab"])
    assert seen == ["http.request", "http.disconnect"]


async def test_what_is_no_http_request_passes() -> None:
    desk = Desk(refuse=NotAuthenticated("Who?"))
    app = RequestBodies(answering(), desk.enter, desk.count, json_bytes=10, upload_bytes=20, seconds=30)
    assert (await asked(app, request("/", *announcing(99), kind="websocket"))).sent == [{"type": "websocket.accept"}]
    assert (await asked(app, {"type": "lifespan"})).status == 200
