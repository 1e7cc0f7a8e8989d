"""Where everybody is let in, nobody may be who is led here by a web page."""

import pytest
from asgi_play import answering, asked, request

from turnwise.facts.errors import Forbidden
from turnwise.gateway.middleware.admission import LocalOnly

LISTED = "https://app.example"


async def comes(host: str | None, origin: str | None = None, kind: str = "http") -> int:
    headers = [(name, value) for name, value in (("Host", host), ("Origin", origin)) if value is not None]
    answer = await asked(LocalOnly(answering(), [LISTED]), request("/", *headers, kind=kind))
    return answer.status


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8000", "[::1]", "[::1]:8000"])
async def test_this_machine_by_its_own_names(host: str) -> None:
    assert await comes(host) == 200
    assert await comes(host, f"http://{host}") == 200
    assert await comes(host, LISTED) == 200


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "127x0x0x1",
        "localhost.evil.example",
        "0.0.0.0:8000",
        "[::1].evil.example",
        "[::2]",
        "[::1",
        "127.0.0.2",
        "localhost evil",
        ":8000",
    ],
)
async def test_any_other_name_is_refused(host: str | None) -> None:
    with pytest.raises(Forbidden, match="reached as localhost"):
        await comes(host)
    with pytest.raises(Forbidden, match="reached as localhost"):
        await comes(host, kind="websocket")


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "http://localhost:8001",
        "http://localhost",
        "file://",
        "https://app.example.evil",
        "http://evil.example@localhost:8000",
        "http://[",
        "localhost:8000",
    ],
)
async def test_pages_of_other_origins_are_refused(origin: str) -> None:
    for kind in ("http", "websocket"):
        with pytest.raises(Forbidden, match="web pages of other origins"):
            await comes("localhost:8000", origin, kind)


async def test_who_gives_two_names_gives_none() -> None:
    with pytest.raises(Forbidden):
        await asked(LocalOnly(answering(), []), request("/", ("Host", "localhost"), ("Host", "evil.example")))


async def test_what_is_no_request_passes() -> None:
    seen = await asked(LocalOnly(answering(), []), {"type": "lifespan"})
    assert seen.status == 200
