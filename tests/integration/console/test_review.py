"""The review page while labels are on their way: claims are kept, nothing is lost, and Undo takes back what it names."""

import asyncio
from typing import Any

from console_play import Console, console, hide

LABELS = "**/decision-labels"


async def reviewed(it: Console, *texts: str) -> list[str]:
    """Opens the review of these messages. Returns them in the order of the queue."""
    for text in texts:
        await it.client.send_message(text, "s")
    await it.go("review")
    await it.page.locator(".aside .stages").wait_for()
    return [
        each["decision"]["text"] for each in (await it.client.get("/api/v1/review-queue?size=200&random=0.1")).json()["queue"]
    ]


async def labels(it: Console) -> dict[str, str]:
    """The label of each message that has one."""
    found = (await it.client.get("/api/v1/decisions")).json()["decisions"]
    return {each["text"]: each["label"] for each in found if each["label"]}


async def test_the_item_in_sight_is_claimed_again_while_its_page_is_open() -> None:
    """K1: a claim ends by itself after two minutes, so an open page renews it; a hidden tab and a left page do not."""
    async with console() as it:
        await it.page.clock.install()
        claimed: list[str] = []
        it.page.on("request", lambda request: claimed.append(request.url) if "/claim?" in request.url else None)
        await reviewed(it, "order one")
        await it.sees("0 done, 1 left")
        claimed.clear()
        for _ in range(3):
            async with it.page.expect_response("**/claim?**") as renewed:
                await it.page.clock.fast_forward("01:30")
            assert (await (await renewed.value).json())["mine"] is True
        assert len(claimed) == 3
        await hide(it.page, True)
        await it.page.clock.fast_forward("03:00")
        await hide(it.page, False)
        async with it.page.expect_response("**/claim?**"):
            await it.page.clock.fast_forward("01:00")
        await it.page.keyboard.press("g")
        await it.page.keyboard.press("o")
        await it.page.locator("h1").get_by_text("Overview").wait_for()
        await it.page.clock.fast_forward("10:00")
        await it.page.locator(".figures").wait_for()
        assert len(claimed) == 4


async def test_leaving_with_a_label_on_its_way_asks_first() -> None:
    """K2: also from another page of the console; once the label is stored, nothing is asked."""
    release = asyncio.Event()

    async def hold(route: Any) -> None:
        await release.wait()
        await route.continue_()

    async with console() as it:
        asked: list[str] = []

        async def stay(dialog: Any) -> None:
            asked.append(dialog.type)
            await (dialog.dismiss() if len(asked) < 3 else dialog.accept())

        await reviewed(it, "order one", "order two")
        it.page.on("dialog", stay)
        await it.page.route(LABELS, hold)
        await it.page.keyboard.press("y")
        for number in (1, 2):
            async with it.page.expect_event("dialog"):
                await it.page.evaluate("setTimeout(() => location.reload())")
            assert asked == ["beforeunload"] * number
            await it.page.get_by_role("link", name="Overview", exact=True).click()
            await it.page.locator("h1").get_by_text("Overview").wait_for()
        async with it.page.expect_response(LABELS):
            release.set()
        assert len(await labels(it)) == 1
        await it.page.reload()
        await it.page.locator(".figures").wait_for()
        assert asked == ["beforeunload"] * 2


async def test_undo_takes_back_the_label_that_its_notice_names() -> None:
    """K2: the notice stays while the next label is on its way, which is not the one that it names."""
    second = asyncio.Event()
    sent: list[str] = []

    async def hold_the_second(route: Any) -> None:
        sent.append(route.request.url)
        if len(sent) == 2:
            await second.wait()
        await route.continue_()

    async with console() as it:
        first, then, last = await reviewed(it, "order one", "order two", "order three")
        await it.page.route(LABELS, hold_the_second)
        await it.page.keyboard.press("2")
        await it.sees("1 decision labelled orders.")
        await it.page.keyboard.press("3")
        await it.page.locator(".big").get_by_text(last, exact=True).wait_for()
        async with it.page.expect_response(LABELS):
            await it.page.get_by_role("button", name="Undo (u)").click()
        await it.page.locator(".big").get_by_text(first, exact=True).wait_for()
        second.set()
        await it.sees("1 decision labelled asker.")
        assert await labels(it) == {then: "asker"}
        await it.sees("1 done, 2 left")
