"""Tabs that were hidden, left or closed in part: what they show is right again, and nothing that was typed is lost."""

from pathlib import Path
from typing import Any

from console_play import console, defined_console, hide, open_hidden

CONFIGURATION = """
app: test
root: desk
agents: ['definition_agents:desk', 'definition_agents:parcels']
policy: {stages: [patterns]}
"""


async def test_a_list_that_was_opened_hidden_is_right_when_it_is_shown() -> None:
    """K3: a hidden tab follows nothing, so what came meanwhile is read once it is shown."""
    async with console() as it:
        await it.client.send_message("order one", "s")
        async with it.page.expect_response("**/decision-counts**"):
            await open_hidden(it, "decisions")
        rows = it.page.locator(".rows .tr")
        await rows.get_by_text("order one").wait_for()
        await it.client.send_message("order two", "s")
        async with it.page.expect_response("**/decision-stream**"):
            await hide(it.page, False)
        await rows.get_by_text("order two").wait_for()
        assert await rows.locator("> span:first-child").all_inner_texts() == ["order two", "order one"]
        await it.client.send_message("order three", "s")
        await rows.get_by_text("order three").wait_for()
        assert await rows.count() == 3


async def test_a_list_has_no_hole_after_a_gap() -> None:
    """K3: many decisions came in the gap, or more than the page adds one by one."""
    async with console() as it:
        await it.client.send_message("order 0", "s")
        async with it.page.expect_response("**/decision-stream**"):
            await it.go("decisions")
        rows = it.page.locator(".rows .tr")
        await rows.get_by_text("order 0").wait_for()

        async def fewer(route: Any) -> None:
            await route.continue_(url=route.request.url.replace("limit=200", "limit=10"))

        for first, count in ((1, 60), (60, 80)):
            if first > 1:
                await it.page.route("**/decisions?since=**", fewer)
            await hide(it.page)
            for number in range(first, count):
                await it.client.send_message(f"order {number}", "s")
            await hide(it.page, False)
            await rows.get_by_text(f"order {count - 1}", exact=True).wait_for()
            seen: dict[str, None] = {}
            scroll = it.page.locator(".scroll.decisions")
            while "order 0" not in seen:
                seen |= dict.fromkeys(await rows.locator("> span:first-child").all_inner_texts())
                await scroll.evaluate("async view => { view.scrollTop += 400; await new Promise(requestAnimationFrame); }")
            assert list(seen) == [f"order {number}" for number in range(count - 1, -1, -1)]


async def test_a_chat_that_was_hidden_reads_every_page_of_what_was_said() -> None:
    """K4: also when nothing had been said before."""
    async with console() as it:
        asked: list[str] = []

        async def small(route: Any) -> None:
            asked.append(route.request.url)
            await route.continue_(url=route.request.url.replace("limit=200", "limit=50"))

        await it.page.route("**/events?**limit=200", small)
        await open_hidden(it, "chat/s1")
        await it.page.locator(".samples").wait_for()
        for count in (1, 40):
            for number in range(await it.page.locator(".turn").count(), count):
                await it.client.send_message(f"order {number}", "s1")
            asked.clear()
            await hide(it.page, False)
            await it.page.locator(".said").get_by_text(f"order {count - 1}", exact=True).wait_for()
            assert await it.page.locator(".said").all_inner_texts() == [f"order {number}" for number in range(count)]
            assert await it.page.locator(".answer").count() == count
            assert len(asked) == 1 + count // 40
            await hide(it.page)
        assert await it.page.locator(".samples").count() == 0


async def test_an_unsent_message_stays_and_is_asked_for() -> None:
    """K2: leaving the tab asks first; leaving for another page keeps it, and a sent one is not kept."""
    async with console() as it:
        asked: list[str] = []

        async def stay(dialog: Any) -> None:
            asked.append(dialog.type)
            await dialog.dismiss()

        it.page.on("dialog", stay)
        await it.go("chat/s1")
        await it.page.locator(".samples").wait_for()
        await it.page.locator("#message").press_sequentially("where is")
        async with it.page.expect_event("dialog"):
            await it.page.evaluate("setTimeout(() => location.reload())")
        assert asked == ["beforeunload"]
        await it.page.get_by_role("link", name="Overview", exact=True).click()
        await it.page.locator("h1").get_by_text("Overview").wait_for()
        await it.page.go_back()
        await it.page.locator(".composer").wait_for()
        assert await it.page.locator("#message").input_value() == "where is"
        await it.page.get_by_role("link", name="New", exact=True).click()
        await it.page.locator("h1 + code").wait_for()
        await it.page.locator(".samples").wait_for()
        assert await it.page.locator("#message").input_value() == ""
        await it.page.go_back()
        await it.page.locator("#message").press_sequentially(" my order")
        await it.page.keyboard.press("Enter")
        await it.sees("is on its way")
        await it.page.reload()
        await it.sees("is on its way")
        assert asked == ["beforeunload"]


async def test_a_refused_message_is_there_to_be_changed() -> None:
    async with console() as it:
        await it.go("chat/s1")
        refuse = lambda route: route.fulfill(status=429, json={"title": "Too many messages.", "fix": "Wait."})  # noqa: E731
        await it.page.route("**/messages?**", refuse)
        await it.page.route("**/messages", refuse)
        await it.say("where is my order")
        await it.sees("Too many messages.")
        assert await it.page.locator("#message").input_value() == "where is my order"
        await it.page.unroute_all()
        await it.page.keyboard.press("Enter")
        await it.sees("is on its way")
        assert await it.page.locator("#message").input_value() == ""
        it.watched.problems[:] = [each for each in it.watched.problems if "429" not in each]


async def test_the_keys_of_a_closed_panel_do_nothing() -> None:
    """K2: what cannot be seen is not labelled."""
    async with console() as it:
        for text in ("order one", "order two"):
            await it.client.send_message(text, "s")
        sent: list[str] = []
        it.page.on("request", lambda request: sent.append(request.url) if request.method != "GET" else None)
        await it.go("decisions")
        await it.page.locator(".rows .tr").nth(1).wait_for()
        await it.page.keyboard.press("y")
        await it.page.keyboard.press("j")
        await it.page.locator(".aside .labelling button").first.wait_for()
        await it.page.keyboard.press("x")
        await it.page.locator(".aside").wait_for(state="detached")
        for key in "ylo":
            await it.page.keyboard.press(key)
        assert await it.page.locator("dialog, .toast").count() == 0
        assert it.page.url.endswith("/console/decisions")
        await it.page.keyboard.press("j")
        await it.page.locator(".aside .labelling button").first.wait_for()
        await it.page.keyboard.press("y")
        await it.sees("Labelled orders.")
        assert [url.rpartition("/")[2].partition("?")[0] for url in sent] == ["label"]
        assert "/decisions/1/" in sent[0]


async def test_a_message_becomes_an_example_of_the_agent_that_its_label_named(tmp_path: Path) -> None:
    """E6: a link that was opened in another tab hands its message to no other agent's page of this one."""
    async with defined_console(tmp_path, CONFIGURATION) as (it, _):
        await it.client.send_message("my box", "s1")
        await it.client.put("/api/v1/sessions/s1/decisions/1/label?user=local", json={"agent": "parcels"})
        link = it.page.get_by_role("link", name="Make this message an example of parcels")
        await it.go("decisions/s1/1?user=local")
        async with it.page.context.expect_page() as opened:
            await link.click(modifiers=["ControlOrMeta"])
        await (await opened.value).close()
        for name in ("desk", "parcels"):
            await it.page.keyboard.press("g")
            await it.page.keyboard.press("a")
            await it.page.locator(f".tree a[href$='agents/{name}']").first.click()
            await it.page.get_by_role("button", name="Edit").wait_for()
            assert await it.page.locator("form.editor").count() == 0, name
        await it.go("decisions/s1/1?user=local")
        await link.click()
        assert (await it.page.get_by_label("Examples").input_value()).splitlines()[-1] == "my box"
