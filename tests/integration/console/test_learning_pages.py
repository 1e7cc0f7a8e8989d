"""The console's pages about learning, in a real browser: experiments, drafts, what the traffic shows, kept evaluations."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from console_play import LOCKED, Console, console, defined_console, needs_axe

from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import Label
from turnwise.ports.experiments import Arm, Experiment
from turnwise.ports.records import Act
from turnwise.selection.policy import PolicySpec, StageSpec

SCHEMES = [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)]
FRESH = PolicySpec(name="fresh", stages=(StageSpec(selector="direct"), StageSpec(selector="default")))
TRIAL = Experiment(
    name="trial", arms=(Arm(name="today"), Arm(name="fresh", policy="fresh")), ripe_seconds=1.0, least_units=10, worse_by=1.0
)
WITH_TRIAL: dict[str, Any] = {"experiment": TRIAL, "policies": {"fresh": FRESH}}
FIGURES: dict[str, Any] = {
    "cases": 200,
    "accuracy": 0.915,
    "in_scope_accuracy": 0.94,
    "switch_accuracy": 0.88,
    "stay_accuracy": None,
    "out_of_scope_f1": 0.8,
    "ece": 0.021,
    "confusions": [{"expected": "orders", "chosen": None, "count": 7}],
    "files": ["<b>cases</b>.jsonl"],
    "policy": "default",
    "fingerprint": "abc",
    "agents": 8,
    "examples": 40,
}
CONFIGURATION = """
app: test
root: desk
agents: ['definition_agents:desk', 'definition_agents:parcels']
policy: {stages: [patterns]}
"""


async def experimented(it: Console, count: int = 60) -> None:
    """Sessions in an experiment whose new arm is corrected more often."""
    store: Any = it.runner.store
    for number in range(count):
        session = f"s{number}"
        result = await it.runner.start("where is my order", user="local", session=session)
        selection = (await result.result()).events[0].actions.selection
        if selection is not None and selection.arm == "fresh" and number % 3:
            label = Label(source="user", author="local", agent="orders")
            await store.labels.put(SessionKey("shop", "local", session), 1, label, actor="local")
    await asyncio.sleep(TRIAL.ripe_seconds)


@needs_axe
@pytest.mark.parametrize(("scheme", "width"), SCHEMES)
async def test_the_pages_of_learning_are_open_to_everybody(scheme: str, width: int) -> None:
    """H7, K2"""
    options: dict[str, Any] = {"width": width, "color_scheme": scheme, "bypass_csp": True, "runner": WITH_TRIAL}
    async with console(**options) as it:
        store: Any = it.runner.store
        await store.audit.record("shop", Act("cli", "evaluation.stored", details=FIGURES))
        await experimented(it)
        for path, text in {
            "experiments": "today, fresh",
            "experiments/trial": "Differences from the control",
            "improve": "Patterns that meet",
            "quality": "91.5 %",
        }.items():
            await it.go(path)
            await it.sees(text)
            assert await it.problems_of_access() == [], path
            assert await it.page.evaluate("document.scrollingElement.scrollWidth") <= width, path


async def test_an_experiment_is_promoted_and_rolled_back_after_a_question() -> None:
    """H7"""
    async with console(runner=WITH_TRIAL) as it:
        await it.go("experiments")
        await it.sees("trial has not started")
        await experimented(it, 12)
        questions: list[str] = []

        async def answer(dialog: Any) -> None:
            questions.append(dialog.message)
            await (dialog.dismiss() if len(questions) == 1 else dialog.accept())

        it.page.on("dialog", answer)
        await it.go("experiments")
        await it.page.get_by_role("link", name="trial").click()
        await it.sees("12")
        for _ in range(2):
            await it.page.get_by_label("Promote an arm").select_option("fresh")
        await it.page.locator(".tag").get_by_text("promoted").wait_for()
        await it.page.get_by_role("button", name="Roll back").click()
        await it.page.locator(".tag").get_by_text("rolled back").wait_for()
        assert await it.page.get_by_role("button", name="Roll back").count() == 0
        assert [each.partition("?")[0] for each in questions] == [
            "Let fresh decide all sessions that begin from now on",
            "Let fresh decide all sessions that begin from now on",
            "Let today decide in all sessions at once",
        ]
        store: Any = it.runner.store
        acts = [each.action for each in (await store.audit.list("shop")).items if each.action.startswith("experiment")]
        assert acts == ["experiment.rolled_back", "experiment.promoted"]


async def test_users_and_empty_stores_are_told_what_is_missing() -> None:
    async with console() as it:
        for path, text in {
            "experiments": "No experiments",
            "improve": "Nothing to learn from yet",
            "quality": "keeps their figures",
        }.items():
            await it.go(path)
            await it.sees(text)
    async with console(config=LOCKED, key={"user": "ann"}) as it:
        for path in ("experiments", "experiments/trial", "improve", "quality"):
            await it.go(path)
            await it.sees("For operators")


@needs_axe
async def test_a_draft_is_tried_and_served(tmp_path: Path) -> None:
    """C16, H3: its gain by labels is shown before it is served."""
    async with defined_console(tmp_path, CONFIGURATION, bypass_csp=True) as (it, app):
        await it.client.send_message("my box", "s1")
        await it.client.put("/api/v1/sessions/s1/decisions/1/label?user=local", json={"agent": "parcels"})
        body = {"name": "parcels", "patterns": [{"regex": "box"}], "status": "draft", "note": "Learned from <b>1</b> label."}
        assert (await it.client.post("/api/v1/agents", json=body)).status_code == 201
        await it.go("improve")
        await it.sees("Learned from <b>1</b> label.")
        await it.page.get_by_role("button", name="Gain").click()
        await it.sees("+100.0 points")
        await it.sees("1 would be right")
        assert await it.problems_of_access() == []
        it.page.on("dialog", lambda dialog: dialog.accept())
        await it.page.get_by_role("button", name="Serve it").click()
        await it.sees("None.")
        await app.serve_definitions()
        assert (await app.runner.select("my box")).agent == "parcels"
