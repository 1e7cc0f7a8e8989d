"""The page of the documentation, in a real browser: it needs nothing but the gateway."""

from browser_play import browsing
from gateway_play import served

from turnwise import Runner, SqlSessionStore, agent
from turnwise.facts.gateway import GatewayConfig


@agent
def desk(message: str) -> str:
    return f"You said {message}"


async def test_the_api_is_shown_and_tried_out_without_the_internet() -> None:
    runner = Runner(desk, store=SqlSessionStore("sqlite://"))
    async with served(runner) as client, browsing() as watched:
        page = watched.page
        await page.goto(f"{client.address}/docs")
        await page.locator("#operations-messages-send_message").click()
        await page.locator("#operations-messages-send_message .try-out__btn").click()
        await page.get_by_placeholder("session_id").fill("s")
        await page.locator("#operations-messages-send_message textarea").fill('{"content": "hi"}')
        await page.locator("#operations-messages-send_message .execute").click()
        await watched.reads("You said hi")
        assert watched.problems == []
        assert watched.strangers(client.address) == []
    await runner.close()


async def test_it_can_be_left_out() -> None:
    runner = Runner(desk, store=SqlSessionStore("sqlite://"))
    async with served(runner, GatewayConfig(documentation=False)) as client:
        for path in ("/docs", "/docs/start.js", "/docs/swagger-ui.css", "/openapi.json"):
            assert (await client.get(path)).status_code == 404
    async with served(runner) as client:
        style = await client.get("/docs/swagger-ui.css")
        assert (style.headers["content-type"], style.status_code) == ("text/css; charset=utf-8", 200)
        assert (await client.get("/docs/core.py")).status_code == 404
    await runner.close()
