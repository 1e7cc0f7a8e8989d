"""The configuration for nginx of docs/serving.md, in a real nginx before a real gateway."""

import asyncio
import json
import re
import shutil
import socket
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from gateway_play import DEADLINE_SECONDS, Served, events_in, key_for, served
from runner_play import Gate, soon
from websockets.asyncio.client import connect

from turnwise import Runner, agent
from turnwise.facts.gateway import AuthConfig, CallerLimits, GatewayConfig
from turnwise.stores.artifacts.local import InMemoryArtifactStore

MakeRunner = Callable[..., Runner]
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
PAGE = Path(__file__).resolve().parents[3] / "docs/serving.md"
BEHIND = GatewayConfig(auth=AuthConfig(), trusted_proxies=("127.0.0.1",))
STREAM = {"Accept": "text/event-stream"}
MAIN = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{block}
}}
"""

pytestmark = pytest.mark.skipif(NGINX is None, reason="there is no nginx on this machine")


@agent
def desk(message: str) -> str:
    return f"You said {message}"


def block_of(page: str) -> str:
    """The configuration on the page: all that is indented, from its first line on."""
    found = re.search(r"^    map \$http_upgrade .*\n(?:    .*\n|\n)*", page, re.MULTILINE)
    assert found is not None
    return textwrap.dedent(found[0])


def replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@asynccontextmanager
async def behind(gateway: Served, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an nginx as of the page, in front of that gateway."""
    assert NGINX is not None
    port = free_port()
    block = replaced(block_of(PAGE.read_text("utf-8")), "http://127.0.0.1:8000;", f"{gateway.address};")
    block = replaced(block, "listen 80;", f"listen 127.0.0.1:{port};")
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder, block=block), "utf-8")
    options = ("-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr")
    process = await asyncio.create_subprocess_exec(NGINX, *options, stderr=asyncio.subprocess.PIPE)
    try:
        await _listens(process, port)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=DEADLINE_SECONDS, trust_env=False) as client:
            yield client
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _listens(process: asyncio.subprocess.Process, port: int) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            if process.returncode is not None:
                pytest.fail((await process.communicate())[1].decode())
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
                continue
            writer.close()
            return


async def test_requests_and_answers_pass(make_runner: MakeRunner, tmp_path: Path) -> None:
    """Larger ones than nginx lets through by itself, and methods of all kinds."""
    runner = make_runner(desk, artifacts=InMemoryArtifactStore())
    async with served(runner, BEHIND) as gateway, behind(gateway, tmp_path) as client:
        client.headers.update(await key_for(runner, user="ann"))
        assert (await client.post("/api/v1/sessions/s/messages", json={"content": "hi"})).json()["text"] == "You said hi"
        data = b"x" * 5_000_000
        assert (await client.put("/api/v1/sessions/s/artifacts/a/b.bin", content=data)).status_code == 201
        assert (await client.get("/api/v1/sessions/s/artifacts/a/b.bin")).content == data
        head = await client.head("/api/v1/sessions/s")
        assert (head.status_code, head.content, head.headers["etag"]) == (
            200,
            b"",
            (await client.get("/api/v1/sessions/s")).headers["etag"],
        )
        given = {"If-Match": head.headers["etag"]}
        assert (await client.patch("/api/v1/sessions/s/state", json={"state": {"a": 1}}, headers=given)).status_code == 200
        refused = await client.put("/api/v1/sessions")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST")
        assert (await client.get("/api/v1/sessions/ä%20b")).json()["code"] == "session.missing"


async def test_a_stream_passes_as_it_comes(make_runner: MakeRunner, tmp_path: Path) -> None:
    """What was said before is there while the agent is still at work."""
    gate = Gate()
    runner = make_runner(gate.agent)
    async with served(runner, BEHIND) as gateway, behind(gateway, tmp_path) as client:
        client.headers.update(await key_for(runner, user="ann"))
        asked = client.stream("POST", "/api/v1/sessions/s/messages", json={"content": "hi"}, headers=STREAM)
        async with asked as answer, asyncio.timeout(DEADLINE_SECONDS):
            text = ""
            async for piece in answer.aiter_text():
                text += piece
                if not gate.go.is_set() and events_in(text):
                    await soon(gate.began.wait())
                    gate.go.set()
        assert [kind for kind, _, _ in events_in(text)][-1] == "answer"


async def test_a_web_socket_passes(make_runner: MakeRunner, tmp_path: Path) -> None:
    runner = make_runner(desk)
    async with served(runner, BEHIND) as gateway, behind(gateway, tmp_path) as client:
        headers = await key_for(runner, user="ann")
        url = str(client.base_url).replace("http", "ws") + "/v1/responses"
        async with connect(url, additional_headers=headers, proxy=None) as connection, asyncio.timeout(DEADLINE_SECONDS):
            await connection.send(json.dumps({"type": "response.create", "model": "turnwise", "input": "hi"}))
            told = [json.loads(await connection.recv())]
            while told[-1]["type"] != "response.completed":
                told.append(json.loads(await connection.recv()))
        assert told[-1]["response"]["output"][0]["content"][0]["text"] == "You said hi"


async def test_urls_lead_to_where_the_caller_came_in(make_runner: MakeRunner, tmp_path: Path) -> None:
    """With the outer host and port, those that the caller used."""
    runner = make_runner(desk)
    async with served(runner, BEHIND) as gateway, behind(gateway, tmp_path) as client:
        headers = await key_for(runner, user="ann")
        for host in (client.base_url.netloc.decode(), "shop.example:8443", "shop.example"):
            card = (await client.get("/.well-known/agent-card.json", headers={"Host": host})).json()
            assert [each["url"] for each in card["supportedInterfaces"]] == [f"http://{host}/a2a", f"http://{host}/a2a/rest"]
        made = await client.post("/api/v1/sessions", json={"id": "s"}, headers=headers)
        assert (await client.get(made.headers["location"], headers=headers)).json()["id"] == "s"


async def test_a_caller_is_known_by_his_own_address(make_runner: MakeRunner, tmp_path: Path) -> None:
    """He cannot name another one himself: what nginx saw counts."""
    runner = make_runner(desk)
    limits = CallerLimits(failures=2)
    async with served(runner, BEHIND.replace(limits=limits)) as gateway, behind(gateway, tmp_path) as client:
        wrong = {"Authorization": "Bearer tw_wrong"}
        statuses = [
            (await client.get("/api/v1/agents", headers={**wrong, "X-Forwarded-For": f"10.0.0.{number}"})).status_code
            for number in range(4)
        ]
        assert statuses == [401, 401, 429, 429]
