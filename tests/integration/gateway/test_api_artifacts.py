"""Artifacts over our own API: uploaded, downloaded whole and in part, never shown in our own name."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_play import DEADLINE_SECONDS, Served, answered_raw, key_for, served

from turnwise import Limits, RunConfig, Runner, agent
from turnwise.facts.gateway import AuthConfig, GatewayConfig
from turnwise.stores.artifacts.local import InMemoryArtifactStore, OnDiskArtifactStore

MakeRunner = Callable[..., Runner]
A = "/api/v1/sessions/s/artifacts"
SMALL = RunConfig(limits=Limits(blob_bytes=1_000))


@agent
def desk(message: str) -> str:
    return message


@pytest.fixture
def make_keeper(make_runner: MakeRunner) -> MakeRunner:
    """Makes runners that keep artifacts."""

    def make(**options: Any) -> Runner:
        return make_runner(desk, **{"artifacts": InMemoryArtifactStore(), "config": SMALL, **options})

    return make


async def with_session(client: Served) -> Served:
    assert (await client.post("/api/v1/sessions", json={"id": "s"})).status_code == 201
    return client


async def test_what_was_uploaded_comes_back_as_it_was(make_keeper: MakeRunner, tmp_path: Path) -> None:
    """A28."""
    data = bytes(range(256))
    async with served(make_keeper(artifacts=OnDiskArtifactStore(tmp_path / "a"))) as client:
        await with_session(client)
        for version in (1, 2):
            put = await client.put(f"{A}/dir/ä b.bin", content=data[version:], headers={"Content-Type": "image/x-own"})
            assert (put.status_code, put.json()["version"]) == (201, version)
        got = await client.get(f"{A}/dir/ä b.bin")
        assert (got.content, got.headers["content-type"]) == (data[2:], "image/x-own")
        assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''%C3%A4%20b.bin"
        assert (await client.get(f"{A}/dir%2F%C3%A4%20b.bin?version=1")).content == data[1:]
        assert (await client.get(f"{A}/dir/ä b.bin?version=3")).status_code == 404
        assert (await client.get(A)).json()["artifacts"] == [
            {"name": "dir/ä b.bin", "version": 2, "mime_type": "image/x-own", "size": 254}
        ]
        versions = (await client.get(A, params={"name": "dir/ä b.bin"})).json()["artifacts"]
        assert [each["version"] for each in versions] == [1, 2]
        assert (await client.delete(f"{A}/dir/ä b.bin")).status_code == 204
        assert (await client.get(f"{A}/dir/ä b.bin")).json()["code"] == "request.nothing_here"
        assert (await client.delete(f"{A}/dir/ä b.bin")).status_code == 204


async def test_an_uploaded_page_never_runs_as_ours(make_keeper: MakeRunner) -> None:
    async with served(make_keeper()) as client:
        await with_session(client)
        await client.put(f"{A}/x.html", content=b"<script>", headers={"Content-Type": "text/html"})
        got = await client.get(f"{A}/x.html")
        assert got.headers["content-type"] == "text/html"
        assert got.headers["content-disposition"].startswith("attachment;")
        assert got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["content-security-policy"] == "default-src 'none'; sandbox"


async def test_parts_of_it(make_keeper: MakeRunner) -> None:
    async with served(make_keeper()) as client:
        await with_session(client)
        await client.put(f"{A}/f", content=b"0123456789")
        part = await client.get(f"{A}/f", headers={"Range": "bytes=2-4"})
        assert (part.status_code, part.content) == (206, b"234")
        assert (part.headers["content-range"], part.headers["content-length"]) == ("bytes 2-4/10", "3")
        beyond = await client.get(f"{A}/f", headers={"Range": "bytes=10-"})
        assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */10")
        assert beyond.json()["code"] == "request.range"
        several = await client.get(f"{A}/f", headers={"Range": "bytes=0-1,3-4"})
        assert (several.status_code, several.content) == (200, b"0123456789")


async def test_what_the_reader_has_is_not_sent_again(make_keeper: MakeRunner) -> None:
    async with served(make_keeper()) as client:
        await with_session(client)
        await client.put(f"{A}/f", content=b"old")
        tag = (await client.get(f"{A}/f")).headers["etag"]
        same = await client.get(f"{A}/f", headers={"If-None-Match": tag})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
        goes_on = {"Range": "bytes=1-", "If-Range": tag}
        assert (await client.get(f"{A}/f", headers=goes_on)).content == b"ld"
        await client.delete(f"{A}/f")
        await client.put(f"{A}/f", content=b"new")
        assert (await client.get(f"{A}/f", headers={"If-None-Match": tag})).content == b"new"
        whole = await client.get(f"{A}/f", headers=goes_on)
        assert (whole.status_code, whole.content) == (200, b"new")


async def test_looking_at_it(make_keeper: MakeRunner) -> None:
    async with served(make_keeper()) as client:
        await with_session(client)
        await client.put(f"{A}/f", content=b"0123456789", headers={"Content-Type": "text/plain"})
        head, got = await client.head(f"{A}/f"), await client.get(f"{A}/f")
        assert (head.status_code, head.content) == (200, b"")
        for name in ("content-length", "content-type", "etag", "x-artifact-version", "content-disposition"):
            assert head.headers[name] == got.headers[name], name
        assert (await client.head(f"{A}/none")).status_code == 404


async def test_too_much_is_refused_and_nothing_is_kept(make_keeper: MakeRunner) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b"x" * 100

    async with served(make_keeper()) as client:
        await with_session(client)
        for body in (b"x" * 1_001, pieces()):
            answer = await client.put(f"{A}/f", content=body)
            assert (answer.status_code, answer.json()["code"]) == (413, "artifact.too_large")
        assert (await client.get(A)).json()["artifacts"] == []
        assert (await client.put(f"{A}/f", content=b"x" * 1_000)).status_code == 201


async def test_what_says_that_it_is_too_much_is_not_waited_for(make_keeper: MakeRunner) -> None:
    async with served(make_keeper()) as client:
        await with_session(client)
        request = f"PUT {A}/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\nConnection: close\r\n\r\n"
        answer = await answered_raw(client.address, request.encode())
        assert answer.startswith(b"HTTP/1.1 413 ")


async def test_an_upload_that_breaks_off_leaves_nothing(make_keeper: MakeRunner) -> None:
    async with served(make_keeper()) as client:
        await with_session(client)
        url = httpx.URL(client.address)
        async with asyncio.timeout(DEADLINE_SECONDS):
            _, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(f"PUT {A}/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf".encode())
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        assert (await client.put(f"{A}/g", content=b"1")).status_code == 201
        assert [each["name"] for each in (await client.get(A)).json()["artifacts"]] == ["g"]


class AccessLogged(logging.Handler):
    """Sets the event when the access log tells of a PUT."""

    def __init__(self, event: asyncio.Event) -> None:
        super().__init__(logging.INFO)
        self._event = event

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "method", "") == "PUT":
            self._event.set()


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("on_disk", [False, True])
async def test_a_client_that_cuts_off_its_upload_is_no_defect(
    make_keeper: MakeRunner, tmp_path: Path, caplog: pytest.LogCaptureFixture, chunked: bool, on_disk: bool
) -> None:
    caplog.set_level(logging.INFO, "turnwise.gateway")
    store = OnDiskArtifactStore(tmp_path) if on_disk else InMemoryArtifactStore()
    async with served(make_keeper(artifacts=store)) as client:
        await with_session(client)
        url = httpx.URL(client.address)
        _, writer = await asyncio.open_connection(url.host, url.port)
        length, body = (b"Transfer-Encoding: chunked", b"4\r\nhalf\r\n") if chunked else (b"Content-Length: 900", b"half")
        writer.write(
            b"PUT " + f"{A}/cut".encode() + b" HTTP/1.1\r\nHost: " + url.netloc + b"\r\n" + length + b"\r\n\r\n" + body
        )
        await writer.drain()
        over = asyncio.Event()
        access = AccessLogged(over)
        logging.getLogger("turnwise").addHandler(access)
        try:
            writer.close()
            await asyncio.wait_for(over.wait(), DEADLINE_SECONDS)
        finally:
            logging.getLogger("turnwise").removeHandler(access)
        assert [each.getMessage() for each in caplog.records if each.exc_info or each.levelno >= logging.WARNING] == []
        assert "The client disconnected before its request was complete." in [each.getMessage() for each in caplog.records]
        assert (await client.get(f"{A}/cut")).status_code == 404


async def test_what_belongs_to_the_user_is_in_all_sessions(make_keeper: MakeRunner) -> None:
    """A28."""
    async with served(make_keeper()) as client:
        await with_session(client)
        await client.put(f"{A}/user:letter", content=b"dear")
        await client.post("/api/v1/sessions", json={"id": "t"})
        assert (await client.get("/api/v1/sessions/t/artifacts/user:letter")).content == b"dear"
        await client.delete("/api/v1/sessions/s")
        assert (await client.get("/api/v1/sessions/t/artifacts")).json()["artifacts"][0]["name"] == "user:letter"


@pytest.mark.parametrize("name", ["%2E%2E%2Fx", "a%2F%2E%2E%2Fb", "%2Fabs", "a%5Cb", "C:%2Fx", "a%01b"])
async def test_no_name_leaves_its_place(make_keeper: MakeRunner, name: str) -> None:
    """A28."""
    async with served(make_keeper()) as client:
        await with_session(client)
        answer = await client.put(f"{A}/{name}", content=b"x")
        assert (answer.status_code, answer.json()["code"]) == (422, "artifact.name")


async def test_nothing_is_kept_for_a_session_that_there_is_not(make_keeper: MakeRunner) -> None:
    async with served(make_keeper()) as client:
        for method in ("PUT", "GET", "DELETE"):
            answer = await client.request(method, f"{A}/f")
            assert (answer.status_code, answer.json()["code"]) == (404, "session.missing"), method


async def test_an_app_that_keeps_none_says_so(make_keeper: MakeRunner) -> None:
    async with served(make_keeper(artifacts=None)) as client:
        await with_session(client)
        for method, path in (("GET", A), ("PUT", f"{A}/f"), ("GET", f"{A}/f"), ("DELETE", f"{A}/f")):
            answer = await client.request(method, path)
            assert (answer.status_code, answer.json()["title"]) == (404, "This app has no artifact store."), method


async def test_operators_read_and_admins_write_everybodys(make_keeper: MakeRunner) -> None:
    runner = make_keeper()
    async with served(runner, GatewayConfig(auth=AuthConfig())) as client:
        ann = await key_for(runner, user="ann")
        await client.post("/api/v1/sessions", json={"id": "s"}, headers=ann)
        await client.put(f"{A}/f", content=b"x", headers=ann)
        olga, root = await key_for(runner, role="operator", user="o"), await key_for(runner, role="admin", user="r")
        assert (await client.get(f"{A}/f?user=ann", headers=olga)).content == b"x"
        assert (await client.put(f"{A}/f?user=ann", content=b"y", headers=olga)).status_code == 403
        assert (await client.put(f"{A}/f?user=ann", content=b"y", headers=root)).status_code == 201
