"""Which responses are compressed."""

import gzip
import json
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from turnwise.gateway.middleware.responses import LEAST_BYTES, CompressedJson

LONG = {"text": "word " * LEAST_BYTES}


async def long(_: Any) -> Response:
    return JSONResponse(LONG, headers={"ETag": '"5"'})


async def short(_: Any) -> Response:
    return JSONResponse({})


async def text(_: Any) -> Response:
    return PlainTextResponse("word " * LEAST_BYTES)


async def pieces(_: Any) -> Response:
    async def parts() -> Any:
        for _ in range(3):
            yield b" " * LEAST_BYTES

    return StreamingResponse(parts(), media_type="application/json")


async def packed(_: Any) -> Response:
    return Response(gzip.compress(b"{}" * LEAST_BYTES), media_type="application/json", headers={"Content-Encoding": "gzip"})


APP = CompressedJson(Starlette(routes=[Route(f"/{each.__name__}", each) for each in (long, short, text, pieces, packed)]))


async def asked(path: str, encoding: str = "gzip") -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(APP), base_url="http://a") as client:
        return await client.get(path, headers={"Accept-Encoding": encoding})


async def test_long_json_is_compressed_if_the_client_accepts_it() -> None:
    answer = await asked("/long")
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < len(json.dumps(LONG)) / 10
    assert (answer.headers["vary"], answer.headers["etag"]) == ("Accept-Encoding", 'W/"5"')
    assert answer.json() == LONG
    plain = await asked("/long", "identity")
    assert "content-encoding" not in plain.headers
    assert (plain.headers["etag"], plain.json()) == ('"5"', LONG)


@pytest.mark.parametrize("path", ["/short", "/text", "/pieces"])
async def test_other_responses_stay_as_they_are(path: str) -> None:
    answer = await asked(path)
    assert answer.status_code == 200
    assert "content-encoding" not in answer.headers


async def test_what_is_compressed_already_is_not_compressed_again() -> None:
    assert (await asked("/packed")).text == "{}" * LEAST_BYTES
