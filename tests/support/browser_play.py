"""Web pages in a real browser, and whatever they did there that they should not have done."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DEADLINE_MILLISECONDS = 30_000


class Watched:
    """A page. problems: what its console and its scripts complained of. asked: the addresses that it wanted something from,
    whether it got it or not.
    """

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        self.asked: list[str] = []
        page.set_default_timeout(DEADLINE_MILLISECONDS)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("websocket", lambda socket: self.asked.append(socket.url))

    def strangers(self, address: str) -> list[str]:
        """What it asked of others than that address; what a page holds itself is nobody's."""
        return [url for url in self.asked if not url.startswith((f"{address}/", "data:", "blob:"))]

    async def reads(self, text: str) -> None:
        """Returns when that text is to be seen."""
        await self.page.get_by_text(text).first.wait_for(state="visible")

    def _heard(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(f"{message.text} ({message.location.get('url', '')})")


def a_browser() -> str:
    """Where the browser is; the test is skipped where there is none."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine")
    return found


@asynccontextmanager
async def browsing(*, width: int = 1400, height: int = 900) -> AsyncIterator[Watched]:
    """A new page in a browser of its own."""
    place = a_browser()
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=place, args=[*ARGUMENTS])
        try:
            yield Watched(await browser.new_page(viewport={"width": width, "height": height}))
        finally:
            await browser.close()
