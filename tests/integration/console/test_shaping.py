"""The console's pages that change and improve: definitions with drafts and history, plans, the cascade, labels, memory."""

from pathlib import Path
from typing import Any

import pytest
from console_play import Console, console, defined_console, needs_axe

CONFIGURATION = """
app: test
root: desk
agents: ['definition_agents:desk', 'definition_agents:parcels']
policy: {stages: [patterns]}
"""


async def accept(it: Console) -> None:
    it.page.on("dialog", lambda dialog: dialog.accept())


@needs_axe
async def test_a_definition_from_the_draft_to_the_way_back(tmp_path: Path) -> None:
    """C11, F1, F6: a draft changes nothing, serving it does, and an earlier version comes back as a new one."""
    async with defined_console(tmp_path, CONFIGURATION, bypass_csp=True) as (it, app):
        await it.go("agents/parcels")
        await it.sees("the card comes from code or YAML")
        await it.page.get_by_role("button", name="Edit").click()
        patterns = it.page.get_by_label("Patterns")
        assert await patterns.input_value() == "parcel @ 0.8"
        await patterns.fill("parcel @ 0.8\npackage|box @ 0.9")
        await it.page.get_by_label("Description").fill("Knows <b>parcels</b>.")
        await it.page.get_by_label("Note").fill("People say box.")
        await it.page.get_by_role("button", name="What changes").click()
        await it.page.locator(".diff .in").get_by_text("package|box @ 0.9").wait_for()
        assert await it.problems_of_access() == []
        await it.page.get_by_role("button", name="Save a draft").click()
        await it.sees("a draft; code serves")
        await it.sees("People say box.")
        await app.serve_definitions()
        assert (await app.runner.select("my box")).agent == "desk"
        await it.page.get_by_role("button", name="Serve it").click()
        await it.sees("version 2 serves")
        await app.serve_definitions()
        assert (await app.runner.select("my box")).agent == "parcels"
        await it.page.get_by_role("button", name="Edit").click()
        await it.page.get_by_label("Takes messages").uncheck()
        await it.page.get_by_role("button", name="Save and serve").click()
        await it.sees("It is stored; it serves as soon as the processes have read it.")
        await it.sees("version 3 serves")
        await app.serve_definitions()
        assert (await app.runner.select("my box")).agent == "desk"
        assert await it.problems_of_access() == []
        await it.page.get_by_role("button", name="Roll back to it").last.click()
        await it.sees("version 4 serves")
        await app.serve_definitions()
        assert (await app.runner.select("my box")).agent == "parcels"
        await accept(it)
        await it.page.get_by_role("button", name="Retire").click()
        await it.page.locator(".tag.retired").wait_for()
        await app.serve_definitions()
        assert (await app.runner.select("my box")).agent == "desk"


async def test_a_change_that_does_not_fit_is_refused_in_words(tmp_path: Path) -> None:
    """F2"""
    async with defined_console(tmp_path, CONFIGURATION) as (it, _):
        await it.go("agents/parcels")
        await it.page.get_by_role("button", name="Edit").click()
        await it.page.get_by_text("Other fields").click()
        await it.page.get_by_label("JSON").fill("{")
        await it.page.get_by_role("button", name="Save a draft").click()
        await it.sees("The other fields are no JSON object.")
        await it.page.get_by_label("JSON").fill("")
        await it.page.get_by_role("button", name="Save a draft").click()
        await it.sees("Nothing was changed.")
        await it.page.get_by_label("Patterns").fill("(")
        await it.page.get_by_role("button", name="Save a draft").click()
        await it.page.locator(".editor .problem").wait_for()
        assert await it.page.locator(".version").count() == 0
        it.watched.problems[:] = [each for each in it.watched.problems if "422" not in each and "400" not in each]


async def test_a_draft_that_somebody_else_changed_is_refused(tmp_path: Path) -> None:
    """F2: of two writers one is refused, and the page says so."""
    async with defined_console(tmp_path, CONFIGURATION) as (it, _):
        await it.client.post("/api/v1/agents", json={"name": "parcels", "description": "First."})
        await it.go("agents/parcels")
        await it.page.get_by_role("button", name="Edit").click()
        await it.client.patch("/api/v1/agents/parcels", json={"description": "Theirs."}, headers={"If-Match": '"1"'})
        await it.page.get_by_label("Description").fill("Mine.")
        await it.page.get_by_role("button", name="Save and serve").click()
        await it.page.locator(".editor .problem").wait_for()
        newest = (await it.client.get("/api/v1/agents/parcels/versions")).json()["definitions"][0]
        assert newest["content"]["description"] == "Theirs."
        it.watched.problems[:] = [each for each in it.watched.problems if "412" not in each and "409" not in each]


async def test_a_label_becomes_an_example_that_serves(tmp_path: Path) -> None:
    """E6, F1: from a wrong answer to its correction, and the message tried again."""
    async with defined_console(tmp_path, CONFIGURATION) as (it, app):
        await it.go("chat/s1")
        await it.say("my  box")
        await it.page.locator(".aside .stages").wait_for()
        await it.page.keyboard.press("Escape")
        await it.page.keyboard.press("l")
        await it.page.get_by_role("combobox").fill("parc")
        await it.page.keyboard.press("Enter")
        await it.sees("Labelled parcels.")
        await it.page.get_by_role("link", name="Make this message an example of parcels").click()
        assert (await it.page.get_by_label("Examples").input_value()).splitlines()[-1] == "my box"

        async def read_first(route: Any) -> None:
            if route.request.method == "GET":
                await app.serve_definitions()
            await route.continue_()

        await it.page.route("**/api/v1/agents/parcels", read_first)
        await it.page.get_by_role("button", name="Save and serve").click()
        await it.sees("It serves now.")
        await it.page.get_by_role("button", name="Try the message").click()
        await it.page.locator(".why .headline").wait_for()
        assert await it.page.get_by_label("A message to try").input_value() == "my box"
        assert "my box" in (await it.client.get("/api/v1/agents/parcels")).json()["matching"]["examples"]


async def test_drafts_findings_and_changes_are_listed(tmp_path: Path) -> None:
    """E6, F1"""
    async with defined_console(tmp_path, CONFIGURATION) as (it, _):
        content = {"name": "opening", "description": "Hours.", "status": "draft", "note": "Not yet."}
        made = await it.client.post(
            "/api/v1/agents", json={**content, "made_by": {"kind": "reply", "templates": [{"text": ["9"]}]}}
        )
        assert made.status_code == 201, made.text
        await it.go("agents")
        await it.sees("Drafts and retired")
        await it.sees("Not yet.")
        await it.sees("parcels has no examples")
        await it.go("operations")
        await it.sees("agent opening, version 1")
        await it.go("policy")
        await it.sees("turnwise agents set main --policy")
        answer = await it.client.put(
            "/api/v1/policies/main", json={"policy": {"stages": ["patterns"]}, "note": "The same."}, headers={"If-Match": '"0"'}
        )
        assert answer.status_code == 200, answer.text
        await it.go("policy")
        await it.sees("The same.")


async def test_the_plan_of_a_flow_is_drawn() -> None:
    """D10: as a picture of this gateway, with the tasks as a table."""
    async with console() as it:
        await it.go("flows/visit")
        picture = it.page.get_by_alt_text("The plan of visit")
        await picture.wait_for()
        assert await picture.evaluate("image => image.decode().then(() => image.naturalWidth > 100)")
        await it.page.get_by_text("2 tasks").click()
        await it.sees("outing")
        await it.go("flows/orders")
        await it.sees("There is no such flow")


async def test_the_cascade_shows_where_messages_are_decided() -> None:
    """C1"""
    async with console() as it:
        await it.runner.cascade.prepare()  # the fitted models are a part of the policy's fingerprint
        for number, text in enumerate(("my order", "an order", "hello you", "which?")):
            await it.client.send_message(text, f"s{number}")
        await it.go("policy")
        drawn = it.page.locator(".cascade")
        await drawn.get_by_role("img", name="100 % come here, 75 % are decided here").first.wait_for()
        await it.sees("of the newest 4 decisions")
        await it.sees("answers when every stage passes")


@pytest.mark.parametrize("labels", [0, 2])
async def test_improve_says_what_learning_needs(labels: int) -> None:
    """H1"""
    async with console() as it:
        for number in range(labels):
            await it.client.send_message("my order", f"s{number}")
            path = f"/api/v1/sessions/s{number}/decisions/1/label?user=local"
            await it.client.put(path, json={"agent": "asker" if number else "orders"})
        await it.go("improve")
        if not labels:
            await it.sees("Learning needs at least 25 labelled decisions")
            return
        await it.sees("Learning needs at least 25 labels: 23 more.")
        await it.page.locator(".plainlist a").get_by_text("asker").click()
        await it.page.wait_for_url("**decisions?agent=orders&label=asker**")
        await it.sees("my order")


async def test_an_entry_of_the_memory_is_shown_whole_and_filtered() -> None:
    """G7"""
    async with console() as it:
        text = "Lives behind the old mill. " * 20
        for more in ({"text": text}, {"text": "Order 10412", "kind": "entity", "span": "short", "entity": THING}):
            assert (await it.client.post("/api/v1/users/local/memories", json=more)).status_code == 201
        await it.go("memory")
        await it.page.locator(".rows .tr").nth(1).click()
        await it.page.locator(".aside blockquote").get_by_text(text.strip()).wait_for()
        await it.page.get_by_role("button", name="Close").click()
        await it.page.get_by_label("Kept").first.select_option("short")
        await it.page.wait_for_url("**span=short**")
        await it.page.locator(".rows .tr").first.click()
        await it.sees("order: Order 10412 (10412)")
        await accept(it)
        await it.page.get_by_role("button", name="Forget all").click()
        await it.sees("2 forgotten.")


THING = {"type": "order", "value": "Order 10412", "normal": "10412"}


async def test_the_end_of_the_list_is_reached_at_once() -> None:
    """E3"""
    async with console() as it:
        for number in range(60):
            await it.client.send_message(f"order {number}", "s")
        await it.go("decisions")
        await it.page.locator(".rows .tr").first.wait_for()
        await it.page.keyboard.press("e")
        await it.page.wait_for_url("**order=oldest**")
        await it.page.locator(".rows .tr").first.get_by_text("order 0", exact=True).wait_for()
        await it.page.get_by_label("Time", exact=True).select_option("")
        await it.page.locator(".rows .tr").first.get_by_text("order 59").wait_for()
