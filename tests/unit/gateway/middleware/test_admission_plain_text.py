"""Paths and queries are text in UTF-8 without NUL."""

import pytest
from asgi_play import answering, asked, request

from turnwise.facts.errors import RequestError
from turnwise.gateway.middleware.admission import PlainTextPaths

GOOD = ["/", "/a/b", "/%C3%A4", "/%F0%9F%90%87", "/a%2Fb", "/..%2F..", "/100%", "/%zz", "/%0A"]
BAD = ["/%ff", "/%00", "/a%C3", "/%ED%A0%80", "/%c0%af", "/\0"]


@pytest.mark.parametrize("text", GOOD)
async def test_text_passes(text: str) -> None:
    assert (await asked(PlainTextPaths(answering()), request(text))).status == 200
    assert (await asked(PlainTextPaths(answering()), request("/", query=text.encode()))).status == 200


@pytest.mark.parametrize("text", BAD)
async def test_what_is_no_text_is_refused(text: str) -> None:
    for kind in ("http", "websocket"):
        with pytest.raises(RequestError, match="path is not UTF-8 text"):
            await asked(PlainTextPaths(answering()), request(text, kind=kind))
        with pytest.raises(RequestError, match="query is not UTF-8 text"):
            await asked(PlainTextPaths(answering()), request("/", query=text.encode(), kind=kind))


async def test_bytes_that_are_not_percent_encoded_are_refused() -> None:
    with pytest.raises(RequestError):
        await asked(PlainTextPaths(answering()), request("/", query="ä".encode()))
