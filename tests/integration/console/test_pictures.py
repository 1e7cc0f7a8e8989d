"""The docs' pictures of the console. `TURNWISE_PICTURES=1` writes them; without it they are taken and thrown away."""

import os
from pathlib import Path
from typing import Any

import pytest
from console_play import ROOT, console

from turnwise import agent

FOLDER = ROOT / "docs" / "images"
MOST_BYTES = 150_000


def shop() -> Any:
    @agent(
        description="Knows where orders are.",
        examples=["Where is my parcel?", "When does my order arrive?", "Track my package", "It is late"],
    )
    def orders(message: str) -> str:
        return "Your order **1001** left the warehouse this morning and arrives tomorrow."

    @agent(
        description="Refunds, invoices and charges.",
        examples=["I want my money back", "Where is my refund?", "I need an invoice", "You charged me twice"],
    )
    def billing(message: str) -> str:
        return "The refund is on its way:\n\n1. approved on Monday\n2. on your account by Friday"

    @agent(children=[orders, billing], description="Greets.", examples=["Hello", "What can you do?"])
    def desk(message: str) -> str:
        return "Hello! I help with orders, refunds and invoices."

    return desk


@pytest.mark.parametrize(("page", "scheme"), [("chat", "light"), ("decisions", "dark"), ("policy", "light")])
async def test_the_docs_show_the_page_as_it_is(page: str, scheme: str, tmp_path: Path) -> None:
    name = f"console-{page}-{scheme}.png"
    folder = FOLDER if os.environ.get("TURNWISE_PICTURES") else tmp_path
    async with console(shop(), policy="default", color_scheme=scheme) as it:
        await it.page.set_viewport_size({"width": 1120, "height": 640})
        await it.go("chat/s1")
        await it.say("Hello there", "I help with orders")
        await it.say("my package has not come yet", "left the warehouse")
        await it.say("My card was charged two times", "on its way")
        if page == "policy":
            await it.go("policy")
            await it.page.locator(".legend").wait_for()
        elif page == "decisions":
            await it.go("decisions")
            await it.sees("Hello there")
            await it.page.keyboard.press("j")
        if page != "policy":
            await it.page.locator(".aside .stages").wait_for()
        await it.page.screenshot(path=str(folder / name))
    assert (folder / name).stat().st_size < MOST_BYTES
    assert name in (ROOT / "docs" / "console.md").read_text()
    assert (FOLDER / name).is_file()
