"""Lists that come in pages, as one."""

from contextlib import aclosing

import httpx
from client_play import Script
from pydantic import BaseModel

from turnwise.client.connection import Gateway, get
from turnwise.client.resources import PAGE, paginate


class Numbers(BaseModel):
    numbers: list[int]
    next: str | None = None


def page(*numbers: int, next: str | None = None) -> httpx.Response:
    return httpx.Response(200, json={"numbers": numbers, "next": next})


def gateway(script: Script) -> Gateway:
    return Gateway("http://gateway.test", None, script.http, timeout=5, patience=0)


async def test_pages_are_asked_for_one_after_the_other() -> None:
    script = Script(page(1, 2, next="2"), page(next="x"), page(3))
    rows = paginate(gateway(script), Numbers, get("/x", of="me"), lambda page: page.numbers)
    assert [row async for row in rows] == [1, 2, 3]
    asked = [dict(request.url.params) for request in script.asked]
    usual = {"of": "me", "limit": str(PAGE)}
    assert asked == [usual, {**usual, "after": "2"}, {**usual, "after": "x"}]


async def test_who_has_seen_enough_asks_for_no_more() -> None:
    script = Script(page(1, 2, next="2"))
    async with aclosing(paginate(gateway(script), Numbers, get("/x"), lambda page: page.numbers)) as rows:
        assert await anext(rows) == 1
    assert len(script.asked) == 1
