"""The ADK's development page: its files over real sockets, and the page itself in a real browser."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from adk_play import Adk, adk
from browser_play import Watched, a_browser, browsing

from turnwise import AgentContext, LlmAgent, agent, tool
from turnwise.facts.gateway import AdkConfig, GatewayConfig, Protocols
from turnwise.testing.models import ScriptedModel, calls

FILES = Path(__file__).parents[3] / ".venv" / "peers" / "adk" / "google" / "adk" / "cli" / "browser"
"""Where `./dev test` installs them."""
INDEX = """<html><head><link rel="preconnect" href="https://fonts.example">
<style>@font-face{font-family:'Icons';src:url(https://fonts.example/i.woff2) format('woff2');}.i{color:red}</style>
<style>@font-face{font-family:Own;src:url('own.woff2')}</style>
<link rel="stylesheet" href="./s.css" media="print" onload="this.media='all'"></head><body></body></html>"""


@tool(confirm=True)
def refund(order: int) -> str:
    return "refunded"


@agent(description="Looks after orders.", patterns=["order"])
async def orders(context: AgentContext) -> str:
    context.state["order"] = "order-1001"
    await context.artifacts.save("label.txt", b"To Bonn", mime_type="text/plain")
    return "It is on its way."


@agent(patterns=["pass"])
async def clerk(context: AgentContext) -> None:
    await context.say("One moment.")
    await context.transfer("orders")


@agent(patterns=["break"])
async def broken(message: str) -> str:
    raise ValueError("as asked")


def desk() -> LlmAgent:
    payer = LlmAgent(
        "payer", patterns=["refund"], model=ScriptedModel(calls("refund", {"order": 7}), "All is paid."), tools=[refund]
    )
    model = ScriptedModel("Good day to you, and welcome.", "Again.")
    return LlmAgent("desk", model=model, children=[orders, clerk, broken, payer], description="Greets.")


@asynccontextmanager
async def paged(root: Any, folder: Path, **options: Any) -> AsyncIterator[Adk]:
    config = GatewayConfig(protocols=Protocols(adk=AdkConfig(web=str(folder))), **options)
    async with adk(root, config, app="shop") as client:
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small page, beside which there is a secret."""
    made = tmp_path / "page"
    (made / "assets").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (made / "out.txt").symlink_to(tmp_path / "secret.txt")
    for name, text in {"index.html": INDEX, "main.js": "1", "s.css": "", "assets/i.svg": "<svg/>", "a.wasm": ""}.items():
        (made / name).write_text(text)
    return made


async def test_the_files_of_the_page(folder: Path) -> None:
    async with paged(desk(), folder) as client:
        types = {
            "": "text/html; charset=utf-8",
            "index.html": "text/html; charset=utf-8",
            "main.js": "text/javascript; charset=utf-8",
            "s.css": "text/css; charset=utf-8",
            "assets/i.svg": "image/svg+xml",
            "a.wasm": "application/wasm",
            "prism-dark.css": "text/css; charset=utf-8",
        }
        for path, type_ in types.items():
            for method in ("GET", "HEAD"):
                answer = await client.ask(method, f"/dev-ui/{path}")
                assert (answer.status_code, answer.headers["content-type"]) == (200, type_), path
                assert "default-src 'none'" in answer.headers["content-security-policy"]
                assert "unsafe-eval" not in answer.headers["content-security-policy"].replace("wasm-unsafe-eval", "")
                assert answer.headers["x-content-type-options"] == "nosniff"
        known = (await client.ask("GET", "/dev-ui/main.js")).headers["etag"]
        again = await client.gateway.get("/adk/dev-ui/main.js", headers={"If-None-Match": known})
        assert again.status_code == 304
        assert (await client.ask("POST", "/dev-ui/main.js")).status_code == 405


async def test_it_needs_nothing_from_elsewhere(folder: Path) -> None:
    async with paged(desk(), folder) as client:
        text = (await client.ask("GET", "/dev-ui/")).text
    assert "https:" not in text
    assert "onload" not in text
    for kept in (".i{color:red}", "own.woff2", '<link rel="stylesheet" href="./s.css">'):
        assert kept in text


async def test_it_is_told_where_the_gateway_is(folder: Path) -> None:
    async with paged(desk(), folder) as client:
        for path in ("/", "/dev-ui"):
            answer = await client.ask("GET", f"{path}?app=shop")
            assert (answer.status_code, answer.headers["location"]) == (307, "./dev-ui/?app=shop")
        told = await client.ask("GET", "/dev-ui/assets/config/runtime-config.json")
        assert told.json() == {"backendUrl": "/adk", "telemetry": False}
    async with paged(desk(), folder, public_url="https://shop.example/agents") as client:
        told = await client.ask("GET", "/dev-ui/assets/config/runtime-config.json")
        assert told.json()["backendUrl"] == "/agents/adk"


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "assets/..%2f..%2fsecret.txt",
        "%5c..%5csecret.txt",
        "//secret.txt",
        "out.txt",
        "assets",
        "a" * 5000,
        "main.js/x",
        "nothing.js",
    ],
)
async def test_no_other_file_is_read(folder: Path, path: str) -> None:
    async with paged(desk(), folder) as client:
        answer = await client.gateway.get(client.gateway.address + "/adk/dev-ui/" + path)
        assert (answer.status_code, "secret" in answer.text) == (404, False)


async def test_without_a_folder_there_is_no_page() -> None:
    async with adk(desk()) as client:
        for path in ("/", "/dev-ui", "/dev-ui/", "/dev-ui/index.html"):
            assert (await client.ask("GET", path)).status_code == 404


@asynccontextmanager
async def opened(root: Any = None) -> AsyncIterator[tuple[Adk, Watched]]:
    """The real page in a real browser; at its end nothing was wrong, and nobody else was asked for anything."""
    a_browser()
    if not (FILES / "index.html").is_file():
        pytest.skip("the files of the page are not installed: ./dev test does it")
    async with paged(root or desk(), FILES) as client, browsing() as watched:
        await watched.page.goto(f"{client.gateway.address}/adk/dev-ui/")
        yield client, watched
        assert watched.problems == []
        assert watched.strangers(client.gateway.address) == []


async def say(watched: Watched, text: str, answer: str) -> None:
    """Types it, and waits for the answer."""
    box = watched.page.get_by_placeholder("Type a message...")
    await box.fill(text)
    await box.press("Enter")
    await watched.reads(answer)


async def test_a_conversation_on_the_page() -> None:
    async with opened() as (_, watched):
        await say(watched, "hello", "Good day to you, and welcome.")
        await say(watched, "pass it on", "It is on its way.")
        await watched.reads("clerk → orders")
        await watched.reads("To Bonn")
        await watched.page.get_by_role("tab", name="State").click()
        await watched.reads("order-1001")
        await watched.page.get_by_role("tab", name="Artifacts").click()
        await watched.page.locator("app-artifact-tab").get_by_text("label.txt").first.wait_for(state="visible")
        await watched.page.get_by_role("tab", name="Info").click()
        await watched.reads("Event")
        await watched.page.get_by_text("Traces").click()
        await watched.reads("INVOCATION ID:")


async def test_pieces_are_seen_as_they_come_and_a_session_is_found_again() -> None:
    go = asyncio.Event()

    @agent
    async def teller(context: AgentContext) -> None:
        async with context.stream() as out:
            await out.write("It begins ")
            await out.write("like this")
            await go.wait()
            await out.write(", and ends.")

    async with opened(teller) as (client, watched):
        await watched.page.get_by_text("more_vert").first.click()
        await watched.page.get_by_text("Streaming", exact=True).click()
        await watched.page.keyboard.press("Escape")
        await say(watched, "tell me", "It begins ")
        assert await watched.page.get_by_text("and ends.").count() == 0
        go.set()
        await watched.reads("It begins like this, and ends.")
        await client.runner.idle()
        await watched.page.reload()
        await watched.reads("It begins like this, and ends.")


async def test_what_fails_is_seen_on_the_page() -> None:
    async with opened() as (_, watched):
        await say(watched, "break it", "Agent 'broken' raised ValueError: as asked")


async def test_leave_is_given_on_the_page() -> None:
    async with opened() as (client, watched):
        await say(watched, "refund it", "May I call refund with order = 7?")
        await watched.page.locator("app-long-running-response input[type=checkbox]").check()
        await watched.page.get_by_role("button", name="Submit").click()
        await watched.reads("All is paid.")
        (session,) = (await client.runner.store.list("shop")).items
        events = await client.runner.sessions.events(session.key)
    assert [result.result for event in events if event.content for result in event.content.tool_results][-1] == "refunded"


async def test_what_the_page_may_not_do(folder: Path) -> None:
    """Whatever an agent says: no script of it runs, and nothing goes to anybody else."""
    async with paged(desk(), folder) as client, browsing() as watched:
        await watched.page.goto(f"{client.gateway.address}/adk/dev-ui/")
        await watched.page.evaluate("document.body.innerHTML = '<img src=x onerror=\\'document.title = 1\\'>'")
        await watched.page.evaluate("fetch('http://127.0.0.2:9/').catch(() => 0)")
        await watched.page.evaluate("new Promise(done => setTimeout(done, 100))")
        assert await watched.page.title() == ""
    told = " ".join(watched.problems)
    assert ("script-src" in told, "connect-src" in told) == (True, True)
