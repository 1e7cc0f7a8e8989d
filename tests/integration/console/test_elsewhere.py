"""`turnwise console`: the console as a process of its own, for a gateway elsewhere."""

from pathlib import Path

from browser_play import browsing
from cli_play import ended, heard, started
from console_play import OPEN, desk
from gateway_play import served

from turnwise import Runner, SqlSessionStore


async def test_the_page_calls_the_gateway_itself(tmp_path: Path) -> None:
    """K3: it calls nobody but the gateway, and only if the gateway allows its origin."""
    runner = Runner(desk(), store=SqlSessionStore("sqlite://"), policy="staples", app="shop")
    async with served(runner) as closed:
        process = started("console", closed.address, "--port", "0", cwd=tmp_path)
        page_at = heard(process, "Console of").split(" at ")[1].strip()
        origin = page_at.removesuffix("/console/")
        assert origin in heard(process, "origins")
        try:
            async with browsing() as watched:
                await watched.page.goto(page_at)
                await watched.reads("The gateway cannot be reached.")
        finally:
            process.terminate()
        assert ended(process)[0] == 0
    allowed = OPEN.replace(origins=(origin,))
    async with served(runner, allowed) as client:
        process = started("console", client.address, "--port", origin.rpartition(":")[2], cwd=tmp_path)
        heard(process, "origins")
        try:
            async with browsing() as watched:
                await watched.page.goto(f"{origin}/")
                await watched.page.goto(f"{page_at}chat/s1")
                await watched.page.locator("#message").fill("where is my order")
                await watched.page.keyboard.press("Enter")
                await watched.reads("is on its way")
                assert watched.problems == []
                called = {url.partition("/api/")[0] for url in watched.asked if "/api/" in url}
                assert called == {client.address}
                assert all(url.startswith((origin, client.address)) for url in watched.asked)
        finally:
            process.terminate()
        ended(process)
    await runner.close()
