"""Texts of users, agents and definitions that try to be more than text, on every page of the console."""

from pathlib import Path

from console_play import HOSTILE, Console, defined_console

CONFIGURATION = """
app: shop
root: top
agents: ['hostile_console_agents:top']
policy: {use: staples}
limits: {message_bytes: 2000000}
"""
AGENTS = """
from console_play import HOSTILE, desk
from turnwise import Flow, Task, agent

@agent(patterns=["zzz"], examples=[HOSTILE])
def twin(message: str) -> str:
    return HOSTILE

trap = Flow("trap", [Task("bait", HOSTILE, agents=[twin])], description=HOSTILE, routable=False)

@agent(children=[trap, desk()], examples=[HOSTILE])
def top(message: str) -> str:
    return HOSTILE
"""
PAGES = (
    "",
    "chat/s1?user=local",
    "sessions",
    "sessions/s1?user=local",
    "memory",
    "decisions",
    "decisions?open=local%2Fs1%2F1",
    "decisions/s1/1?user=local",
    "review?order=chance",
    "quality",
    "improve",
    "experiments",
    "agents",
    "agents/hostile",
    "agents/orders",
    "policy",
    "flows",
    "flows/trap",
    "operations",
)
FOUND = """() => [...document.querySelectorAll('#app *, dialog *')].filter(node =>
    ['SCRIPT', 'IFRAME', 'OBJECT', 'STYLE', 'LINK'].includes(node.tagName)
    || (node.tagName === 'IMG' && !node.src.startsWith('blob:'))
    || [...node.attributes].some(each => each.name.startsWith('on') || /^\\s*javascript:/i.test(each.value))
).map(node => node.outerHTML.slice(0, 200))"""
LONG = "<b>x</b>\u202e " * 90_000
"""A megabyte, most of it markup, with marks that turn the direction of text."""


async def fill(it: Console) -> None:
    """Puts the texts wherever the API takes some."""
    for session, text in (("s1", f"hostile {HOSTILE}"), ("s1", HOSTILE), ("s2", LONG), ("s3", HOSTILE)):
        assert (await it.client.send_message(text, session)).status_code == 200
    await it.client.put("/api/v1/sessions/s1/decisions/1/label?user=local", json={"agent": "orders"})
    await it.client.patch("/api/v1/sessions/s1/state?user=local", json={"state": {HOSTILE[:60]: HOSTILE}})
    for text in (HOSTILE, LONG[:4000]):
        assert (await it.client.post("/api/v1/users/local/memories", json={"text": text})).status_code == 201
    content = {"name": "orders", "description": HOSTILE, "examples": [HOSTILE], "patterns": [{"regex": "<i>"}], "note": HOSTILE}
    assert (await it.client.post("/api/v1/agents", json=content)).status_code == 201
    changed = {"not_for": HOSTILE, "status": "draft", "note": HOSTILE}
    answer = await it.client.patch("/api/v1/agents/orders", json=changed, headers={"If-Match": '"1"'})
    assert answer.status_code == 200, answer.text


async def test_hostile_texts_are_text_on_every_page(tmp_path: Path) -> None:
    """K3: no element, no handler and no link comes from them, no page becomes wider, and no page fails."""
    (tmp_path / "hostile_console_agents.py").write_text(AGENTS)
    async with defined_console(tmp_path, CONFIGURATION) as (it, app):
        it.page.on("dialog", lambda dialog: it.watched.problems.append(f"a dialog: {dialog.message}"))
        await fill(it)
        await app.serve_definitions()
        for path in PAGES:
            await it.go(path)
            await it.page.locator(".page > *").first.wait_for()
            await it.page.wait_for_load_state("networkidle") if path.partition("?")[0] not in ("", "decisions") else None
            assert await it.page.evaluate(FOUND) == [], path
            assert await it.page.get_by_text("This page failed").count() == 0, path
            assert await it.page.title() not in ("1", "2"), path
            assert await it.page.evaluate("document.scrollingElement.scrollWidth") <= 1280, path
            assert await it.page.evaluate("document.body.innerText.length") < 200_000, path
        await it.go("agents/orders")
        await it.page.get_by_role("button", name="Change the draft").click()
        await it.page.get_by_role("button", name="What changes").click()
        assert await it.page.get_by_label("Not for").input_value() == HOSTILE
        await it.page.keyboard.press("Escape")
        await it.page.keyboard.press("Control+k")
        await it.page.get_by_role("combobox").fill(HOSTILE)
        assert await it.page.evaluate(FOUND) == []
