"""The console's other pages in a real browser: each opens, each is reached by the keyboard, and nothing is wrong on any."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from console_play import LOCKED, Console, console, hide, needs_axe
from gateway_play import key_for

PAGES: Mapping[str, str] = {
    "": "Who answers",
    "chat/s1?user=local": "on its way",
    "sessions": "Begins with",
    "sessions/s1?user=local": "Events",
    "memory": "Nothing is remembered",
    "decisions": "where is my order",
    "decisions/s1/1?user=local": "Stages, in order",
    "review": "went to",
    "quality": "Reliability",
    "improve": "Labels by agent",
    "experiments": "No experiments",
    "agents": "What makes them hard to tell apart",
    "agents/orders": "Knows where orders are.",
    "policy": "The cascade",
    "flows": "a plan of tasks",
    "flows/visit": "2 tasks",
    "operations": "Audit",
}
"""Each page, and a text on it."""
LABEL = "api/v1/sessions/{}/decisions/1/label?user=local"


async def filled(it: Console) -> None:
    """Some sessions, one labelled as right and one as wrong."""
    for session, text in (("s1", "where is my order"), ("s2", "hello there"), ("s3", "which?"), ("s4", "break it")):
        await it.client.send_message(text, session)
    for session, label in (("s1", "orders"), ("s2", "orders")):
        await it.client.put(f"/{LABEL.format(session)}", json={"agent": label})


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
async def test_every_page_opens(url: str) -> None:
    """K2, K3: by its link and by its address, and the browser complains of nothing."""
    async with console(url=url) as it:
        await filled(it)
        for path, text in PAGES.items():
            await it.go(path)
            await it.sees(text)
        for name in (
            "Overview",
            "Chat",
            "Sessions",
            "Decisions",
            "Quality",
            "Improve",
            "Experiments",
            "Agents",
            "Policy",
            "Operations",
        ):
            await it.page.get_by_role("link", name=name, exact=True).first.click()
            await it.page.locator("h1").get_by_text(name).wait_for()
        await it.go("no-such-page")
        await it.sees("There is no such page")


@needs_axe
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_serious_bars_anybody(scheme: str, width: int) -> None:
    async with console(width=width, color_scheme=scheme, bypass_csp=True) as it:
        await filled(it)
        found: dict[str, list[str]] = {}
        for path, text in PAGES.items():
            await it.go(path)
            await it.sees(text)
            if problems := await it.problems_of_access():
                found[path] = problems
            wide = await it.page.evaluate("document.scrollingElement.scrollWidth")
            assert wide <= width, path
        assert found == {}


async def test_decisions_are_filtered_and_labelled_by_the_keyboard() -> None:
    async with console() as it:
        await filled(it)
        await it.go("decisions")
        await it.page.get_by_role("row").nth(4).wait_for()
        await it.page.keyboard.press("j")
        await it.page.keyboard.press("j")
        await it.page.locator(".aside blockquote").get_by_text("which?").wait_for()
        await it.page.locator(".aside .stages").wait_for()
        assert "open=local%2Fs3%2F1" in it.page.url
        await it.page.keyboard.press("y")
        await it.sees("Labelled asker.")
        await it.page.get_by_role("button", name="Undo").click()
        await it.sees("Label removed.")
        await it.page.keyboard.press("x")
        await it.page.locator(".aside").wait_for(state="detached")
        await it.page.get_by_label("Agent", exact=True).select_option("orders")
        await it.page.wait_for_url("**agent=orders**")
        await it.sees("where is my order")
        assert await it.page.locator(".rows [role=row]").count() == 1
        await it.page.keyboard.press("/")
        await it.page.keyboard.type("hello")
        await it.sees("Nothing matches")
        await it.page.get_by_role("link", name="Clear the filters").click()
        await it.sees("hello there")
        for key in ("/", *"which"):
            await it.page.keyboard.press(key)
        await it.page.wait_for_url("**words=which**")
        await it.page.locator(".rows").get_by_text("which?").wait_for()
        await it.page.keyboard.press("Enter")
        await it.page.locator(".aside blockquote").get_by_text("which?").wait_for()
        await it.page.keyboard.press("l")
        await it.page.get_by_role("combobox", name="The agent that should have answered").fill("order")
        await it.page.keyboard.press("Enter")
        await it.sees("Labelled orders.")
        await it.page.keyboard.press("/")
        await it.page.keyboard.press("Escape")
        assert await it.page.get_by_label("Words of the message").input_value() == "which"


async def test_who_types_keeps_the_focus_when_the_counts_come() -> None:
    async with console() as it:
        await filled(it)
        counted = asyncio.Event()

        async def late(route: Any) -> None:
            await counted.wait()
            await route.continue_()

        await it.page.route("**/decision-counts**", late)
        await it.go("decisions")
        await it.page.get_by_role("row").nth(4).wait_for()
        await it.page.keyboard.press("/")
        counted.set()
        await it.page.get_by_label("Agent", exact=True).locator("option", has_text="orders").wait_for(state="attached")
        await it.page.keyboard.type("hello")
        await it.page.wait_for_url("**words=hello**")
        await it.sees("hello there")


async def test_a_new_decision_comes_by_itself() -> None:
    async with console() as it:
        await filled(it)
        await it.go("decisions")
        await it.sees("which?")
        async with it.page.expect_response("**/decision-stream**"):
            await it.page.reload()
        await it.sees("which?")
        await it.client.send_message("an order, quite new", "s9")
        await it.page.locator(".rows").get_by_text("an order, quite new").wait_for()


async def test_the_palette_the_keys_and_the_theme() -> None:
    async with console() as it:
        await it.go("policy")
        await it.page.keyboard.press("?")
        await it.page.get_by_role("heading", name="On this page").wait_for()
        await it.page.keyboard.press("Escape")
        await it.page.keyboard.press("Control+k")
        await it.page.get_by_role("option", name="Operations").wait_for()
        await it.page.get_by_role("combobox").fill("orde")
        await it.page.get_by_role("option", name="orders", selected=True).wait_for()
        await it.page.keyboard.press("Enter")
        await it.sees("Knows where orders are.")
        await it.page.keyboard.press("g")
        await it.page.keyboard.press("d")
        await it.page.locator("h1").get_by_text("Decisions").wait_for()
        before = await it.page.evaluate("getComputedStyle(document.body).backgroundColor")
        await it.page.get_by_role("button", name="Light or dark").click()
        await it.page.reload()
        await it.page.locator("h1").first.wait_for()
        assert await it.page.evaluate("getComputedStyle(document.body).backgroundColor") != before


async def test_a_message_is_tried_without_being_stored() -> None:
    async with console() as it:
        await it.go("agents/orders")
        await it.page.get_by_role("button", name="Try").first.click()
        await it.page.locator(".why .headline").get_by_text("orders").first.wait_for()
        assert (await it.client.get("/api/v1/decisions")).json()["decisions"] == []


@pytest.mark.parametrize("role", ["user", "operator", "admin"])
async def test_every_page_opens_for_every_role(role: str) -> None:
    """K1"""
    async with console(config=LOCKED, key={"role": role, "user": "ann"}) as it:
        for path in PAGES:
            if "s1" in path:
                continue
            await it.go(path)
            await it.page.locator(".page > *").first.wait_for()
            assert await it.page.get_by_text("This page failed").count() == 0, path
            assert await it.page.get_by_role("alert").count() == 0, path


async def test_the_policy_of_the_page_is_strict() -> None:
    """K3: scripts that were written into the page do not run, and HTML is no text's meaning."""
    async with console() as it:
        await it.go()
        errors: Any = await it.page.evaluate(
            "(() => { try { document.body.innerHTML = '<b>x</b>'; return ''; } catch (error) { return error.name; } })()"
        )
        assert errors == "TypeError"
        refused = await it.page.evaluate("fetch('http://127.0.0.2:9/').then(() => '', error => error.name)")
        assert refused == "TypeError"
        assert any("TrustedHTML" in each for each in it.watched.problems)
        assert any("connect-src" in each or "Refused to connect" in each for each in it.watched.problems)
        it.watched.problems.clear()
        it.watched.asked[:] = [each for each in it.watched.asked if "127.0.0.2" not in each]


async def test_equal_messages_are_reviewed_as_one_by_the_keyboard() -> None:
    """K2"""
    async with console() as it:
        for session in ("a", "b"):
            await it.client.send_message("What is  this", session)
        await it.client.send_message("my order", "c")
        await it.go("review")
        await it.sees("2 equal messages")
        await it.page.keyboard.press("2")
        await it.sees("2 decisions labelled orders.")
        await it.page.locator(".big").get_by_text("my order").wait_for()
        await it.page.keyboard.press("y")
        await it.sees("All done")
        labels = {each["session_id"]: each["label"] for each in (await it.client.get("/api/v1/decisions")).json()["decisions"]}
        assert labels == {"a": "orders", "b": "orders", "c": "orders"}
        await it.page.keyboard.press("u")
        await it.page.locator(".big").get_by_text("my order").wait_for()
        (found,) = (await it.client.get("/api/v1/decisions?labelled=false")).json()["decisions"]
        assert found["session_id"] == "c"


async def test_a_refused_label_leaves_the_reviewer_in_place() -> None:
    """K2: the picker labels the item for which it was opened, and the one whose label was refused comes next."""
    refused = asyncio.Event()
    asked: list[str] = []

    async def refuse_the_first(route: Any) -> None:
        asked.append(route.request.url)
        if len(asked) > 1:
            await route.continue_()
            return
        await refused.wait()
        await route.fulfill(status=422, json={"title": "Not this one."})

    async with console() as it:
        for text in ("order one", "order two", "order three"):
            await it.client.send_message(text, "s")
        await it.page.route("**/decision-labels", refuse_the_first)
        # Who may not read sessions or claim still sees the reasons.
        for path in ("**/events?**", "**/claim?**"):
            await it.page.route(path, lambda route: route.fulfill(status=403, json={"title": "Not allowed."}))
        await it.go("review")
        big = it.page.locator(".big")
        first = await big.inner_text()
        await it.page.keyboard.press("2")
        await it.sees("1 done, 2 left")
        second = await big.inner_text()
        await it.page.locator(".aside .stages").wait_for()
        await it.page.keyboard.press("l")
        await it.page.get_by_role("combobox", name="The agent that").fill("asker")
        refused.set()
        await it.page.get_by_text(f"The label of “{first}” was not stored. Not this one.").wait_for()
        assert await big.inner_text() == second != first
        await it.page.keyboard.press("Enter")
        await big.get_by_text(first, exact=True).wait_for()
        await it.sees("1 decision labelled asker.")
        found = (await it.client.get("/api/v1/decisions")).json()["decisions"]
        assert {each["text"]: each["label"] for each in found if each["label"]} == {second: "asker"}
        it.watched.problems[:] = [each for each in it.watched.problems if "422" not in each and "403" not in each]


async def test_the_latest_decisions_after_a_gap_are_the_latest() -> None:
    """K3: a hidden tab follows nothing; once it is shown again, the old ones do not come as new."""
    async with console() as it:
        for number in range(20):
            await it.client.send_message(f"order {number}", "s")
        async with it.page.expect_response("**/decision-stream**"):
            await it.go()
        latest = it.page.locator(".latest li a.cut")
        await latest.get_by_text("order 19").wait_for()
        await hide(it.page)
        await it.client.send_message("order 20", "s")
        await hide(it.page, False)
        await latest.get_by_text("order 20").wait_for()
        assert await latest.all_inner_texts() == [f"order {number}" for number in range(20, 12, -1)]


async def test_two_people_review_and_a_key_ends_in_between() -> None:
    """K1, K2: an item that another person has is passed over; a label waits for the new key."""
    async with console(config=LOCKED, key={"role": "operator", "user": "olga"}) as it:
        user, other, fresh = [
            await key_for(it.runner, role=role, user=name)
            for role, name in (("user", "ann"), ("operator", "oskar"), ("operator", "olga"))
        ]
        for number in range(3):
            await it.client.send_message(f"an order, number {number}", f"s{number}", headers=user)
            path = f"/api/v1/sessions/s{number}/decisions/1/claim"
            assert (await it.client.put(path, params={"user": "ann"}, headers=other)).status_code == 200
        await it.go("review")
        await it.sees("Another person reviews this item")
        await it.sees("0 done, 1 left")
        await it.page.keyboard.press("j")
        await it.sees("0 done, 0 left")
        await it.page.evaluate("sessionStorage.setItem('turnwise.key', 'tw_0123456789ab_ended')")
        await it.page.keyboard.press("2")
        await it.page.get_by_label("API key or JSON web token").fill(fresh["Authorization"].removeprefix("Bearer "))
        await it.page.get_by_role("button", name="Use it").click()
        await it.sees("1 decision labelled orders.")
        it.watched.problems[:] = [each for each in it.watched.problems if "401" not in each]


async def test_a_memory_is_added_to_searched_and_forgotten() -> None:
    """G7, K2: what is remembered of a user is shown as text, with who said it."""
    async with console() as it:
        await it.go("memory")
        await it.sees("Nothing is remembered")
        for text in ("Prefers <b>mornings</b>", "Drives a red van"):
            await it.page.get_by_label("A new fact").fill(text)
            await it.page.keyboard.press("Enter")
            await it.sees(text)
        await it.page.get_by_label("Search the memory").fill("van")
        await it.page.keyboard.press("Enter")
        await it.page.locator(".memorylist .tr").nth(1).get_by_text("Drives a red van").wait_for()
        await it.page.get_by_label("Forget: Drives a red van").click()
        await it.page.get_by_text("Drives a red van").wait_for(state="detached")
        await it.go("memory")
        await it.sees("Prefers <b>mornings</b>")
        assert await it.page.get_by_text("Drives a red van").count() == 0


async def test_an_operator_reviews_a_queue_by_the_keyboard_alone() -> None:
    """K2: each item needs one key, and the next is there at once; the mouse is never used."""
    count = 40

    async def late(route: Any) -> None:
        await asyncio.sleep(0.3)
        await route.continue_()

    async with console() as it:
        for number in range(count):
            await it.client.send_message(f"message {number} about an order", f"s{number}")
        await it.go()
        await it.page.locator(".figures").wait_for()
        for key in "gr":
            await it.page.keyboard.press(key)
        await it.page.locator("h1").get_by_text("Review").wait_for()
        await it.page.route("**/decision-labels", late)
        for number in range(count):
            await it.sees(f"{number} done, {count - number} left")
            if number < 5:
                await it.page.locator(".aside .stages").wait_for()
            await it.page.keyboard.press(("y", "2", "3")[number % 3])
        await it.sees("All done")
        answer = await it.client.get("/api/v1/decisions", params={"labelled": "true", "limit": 200})
        labels = [each["label"] for each in answer.json()["decisions"]]
        assert len(labels) == count
        assert labels.count("asker") == count // 3
