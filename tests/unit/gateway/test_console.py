"""How the console is served: its page for every address, and assets that browsers keep for good."""

import gzip
import re

import httpx
import pytest

from turnwise import Runner, SqlSessionStore, agent
from turnwise.console import policy, shell
from turnwise.facts.gateway import GatewayConfig
from turnwise.gateway.app import gateway
from turnwise.gateway.console import gateway_origin
from turnwise.gateway.server import front_for

HTML = {"Accept": "text/html,*/*"}


@agent
def echo(message: str) -> str:
    return message


def client(**options: object) -> httpx.AsyncClient:
    front = front_for(Runner(echo, store=SqlSessionStore("sqlite://")), GatewayConfig.model_validate(options, strict=False))
    return httpx.AsyncClient(transport=httpx.ASGITransport(gateway(front)), base_url="http://localhost")


async def test_browsers_are_led_to_the_console_and_programs_are_not() -> None:
    async with client() as asked:
        led = await asked.get("/", headers=HTML)
        assert (led.status_code, led.headers["location"]) == (307, "./console/")
        assert (await asked.get("/")).status_code == 404
        slash = await asked.get("/console?a=b")
        assert (slash.status_code, slash.headers["location"]) == (307, "./console/?a=b")


@pytest.mark.parametrize(
    ("path", "root"), [("", "./"), ("chat", "./"), ("chat/s1", "../"), ("decisions/s%2F1/3", "../../"), ("a/../..%2f", "../")]
)
async def test_every_address_has_the_page_with_relative_links(path: str, root: str) -> None:
    async with client() as asked:
        page = await asked.send(asked.build_request("GET", f"http://localhost/console/{path}"))
        if path.startswith("a/"):
            root = re.findall(r'name="turnwise-root" content="([^"]*)"', page.text)[0]
        assert page.status_code == 200
        assert f'src="{root}assets/{shell().version}/main.js"' in page.text
        assert f'name="turnwise-api" content="{root}../api/v1"' in page.text
        assert page.headers["content-security-policy"] == policy()
        assert "default-src 'none'" in policy()
        assert "unsafe" not in policy()
        assert page.headers["cache-control"] == "no-cache"
        assert not re.search(r"""(?:href|src)=["'](?:/|https?:)""", page.text)


@pytest.mark.parametrize(
    ("path", "scripts"),
    [
        ("", ["overview"]),
        ("chat/s1", ["chat", "waits"]),
        ("decisions", ["decisions"]),
        ("sessions/s1", ["session", "sessions"]),
        ("agents/a%2Fb", ["agent"]),
        ("experiments/trial", ["experiments"]),
        ("nothing", []),
        ("../main", []),
    ],
)
def test_the_scripts_of_a_page_are_loaded_with_the_frame(path: str, scripts: list[str]) -> None:
    preloaded = re.findall(r'rel="modulepreload" href="[^"]*/pages/([a-z]+)\.js"', shell().page(0, path=path))
    assert sorted(preloaded) == sorted(scripts)


async def test_assets_are_kept_for_good_under_their_version_only() -> None:
    async with client() as asked:
        path = f"/console/assets/{shell().version}/app.css"
        for encoding, size in (("gzip", shell().assets["app.css"].compressed), ("identity", shell().assets["app.css"].body)):
            async with asked.stream("GET", path, headers={"Accept-Encoding": encoding}) as answer:
                raw = b"".join([part async for part in answer.aiter_raw()])
            assert raw == size
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.headers["content-type"] == "text/css; charset=utf-8"
            assert answer.headers["content-length"] == str(len(size))
        for wrong in ("/console/assets/0/app.css", f"/console/assets/{shell().version}/shell.py", "/console/assets/"):
            assert (await asked.get(wrong)).status_code == 404
        assert (await asked.get(f"/console/assets/{shell().version}/pages/chat.js")).status_code == 200
        assert (await asked.head(path)).status_code == 200


async def test_it_can_be_left_out() -> None:
    async with client(console=False) as asked:
        for path in ("/", "/console", "/console/", f"/console/assets/{shell().version}/app.css"):
            assert (await asked.get(path, headers=HTML)).status_code == 404


def test_the_files_are_small_and_nobody_elses() -> None:
    """K3"""
    files = {name: each.body for name, each in shell().assets.items()} | {"index.html": shell().template.encode()}
    frame = sum(len(body) for name, body in files.items() if "/" not in name)
    assert frame + max(len(body) for name, body in files.items() if "/" in name) <= 120_000  # what a first visit loads
    assert max(len(body) for name, body in files.items() if "/" in name) <= 20_000  # a page is loaded when it is opened
    assert sum(map(len, files.values())) <= 180_000
    for name, body in files.items():
        text = body.decode()
        assert not re.search(r"innerHTML|insertAdjacentHTML|outerHTML|document\.write|\beval\(|new Function", text), name
        assert not re.search(r"import\s*\(?[^;]*['\"]https?:|url\(\s*['\"]?https?:", text), name
    assert all(gzip.decompress(each.compressed) == each.body for each in shell().assets.values())


@pytest.mark.parametrize(
    ("url", "origin"), [(None, ""), ("https://a.example/shop", "https://a.example"), ("http://a:1", "http://a:1")]
)
def test_the_origin_of_a_gateway_elsewhere_may_be_called(url: str | None, origin: str) -> None:
    assert gateway_origin(url) == origin
    assert policy(origin).split("; ")[4] == f"connect-src 'self' {origin}".rstrip()
    assert '<meta name="turnwise-api" content="https://a/b/api/v1">' in shell().page(0, "https://a/b/")
