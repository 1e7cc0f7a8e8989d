"""How many requests the console's pages make: what costs the gateway time is asked for once, and as early as it can be."""

from collections import Counter
from typing import Any

import pytest
from console_play import LOCKED, Console, console

API = "/api/v1/"


def asked(it: Console) -> list[str]:
    """Returns the requests to the API, which begin without the stream's."""
    paths = [url.partition(API)[2] for url in it.watched.asked if API in url]
    return [each for each in paths if "since=" not in each and not each.startswith("decision-stream")]


@pytest.mark.parametrize(
    ("path", "sight", "expected"),
    [
        ("", ".latest li", {"me", "decision-counts", "agents?limit=200", "decisions?slim=true&limit=8"}),
        (
            "decisions",
            "select[aria-label=Agent] option:nth-child(2)",
            {"me", "decision-counts", "agents?limit=200", "decisions?slim=true&limit=100"},
        ),
    ],
)
async def test_a_first_page_asks_once_and_before_its_scripts_are_there(path: str, sight: str, expected: set[str]) -> None:
    async with console() as it:
        await it.client.send_message("my order", "s")
        order: list[str] = []
        it.page.on("request", lambda request: order.append(request.url))

        async def late(route: Any) -> None:
            async with it.page.expect_request("**/decision-counts"):
                pass
            await route.continue_()

        await it.page.route("**/main.js", late)
        await it.go(path)
        await it.page.locator(sight).first.wait_for(state="attached")
        assert Counter(asked(it)) == Counter(expected)


async def test_a_filter_asks_for_its_rows_and_counts_only() -> None:
    """K2: agents and counts of a moment ago are known."""
    async with console() as it:
        for text in ("my order", "which?"):
            await it.client.send_message(text, "s")
        await it.go("decisions")
        agents = it.page.get_by_label("Agent", exact=True)
        await agents.locator("option", has_text="orders").wait_for(state="attached")
        it.watched.asked.clear()
        async with it.page.expect_response("**/decision-counts?agent=orders"):
            await agents.select_option("orders")
        await agents.locator("option", has_text="asker · 1").wait_for(state="attached")
        assert sorted(asked(it)) == ["decision-counts?agent=orders", "decisions?agent=orders&slim=true&limit=100"]
        it.watched.asked.clear()
        await it.page.get_by_role("link", name="Decisions", exact=True).first.click()
        await it.page.keyboard.press("e")
        await it.page.wait_for_url("**order=oldest**")
        await it.page.locator(".rows .tr").first.get_by_text("my order").wait_for()
        assert [each for each in asked(it) if not each.startswith("decisions?")] == []


async def test_a_tab_without_a_key_asks_once_who_it_is() -> None:
    """K1: nothing else is asked for in vain."""
    async with console(config=LOCKED) as it:
        await it.page.goto(f"{it.client.address}/console/")
        await it.page.get_by_label("API key or JSON web token").wait_for()
        assert asked(it) == ["me"]
        it.watched.problems[:] = [each for each in it.watched.problems if "401" not in each]
