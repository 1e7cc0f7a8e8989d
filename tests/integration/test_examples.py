"""The small examples: a support desk of LLM agents, and a service for many tenants. The graph is in tests/adapters."""

import json
from pathlib import Path

import pytest
import yaml
from cli_play import turnwise
from runner_play import ask

from turnwise import load_app
from turnwise.content import Content, ToolResultPart

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SUPPORT, TENANTS = EXAMPLES / "support", EXAMPLES / "tenants"


async def test_the_support_desk_uses_its_tools_and_remembers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPPORT_SESSIONS", str(tmp_path / "support.db"))
    monkeypatch.delenv("SUPPORT_MODEL", raising=False)
    runner = load_app(SUPPORT / "turnwise.yaml").runner
    assert (await ask(runner, "Where is order 1003?")).text == "Order 1003 leaves on Friday."
    assert (await ask(runner, "Is invoice 7002 paid?")).text == "Invoice 7002 is open until the end of the month."
    asked = await ask(runner, "Cancel order 1003, please")
    assert asked.text == 'May I call cancel_order with number = "1003"?'
    (call,) = [each for event in asked.events if event.content for each in event.content.tool_calls if each.tool == "confirm"]
    approval = Content(parts=(ToolResultPart(call_id=call.call_id, result={"approved": True}),))
    assert (await ask(runner, approval)).text == "Order 1003 is cancelled."
    assert (await ask(runner, "Has my parcel been sent?", "later")).text == "Order 1003 leaves on Friday."
    stranger = await (await runner.start("Has my parcel been sent?", user="bob", session="s")).result()
    await runner.close()
    assert stranger.text == "Which order is it?"


def test_each_tenant_has_its_own_agents_and_learns_alone(tmp_path: Path) -> None:
    store = {"TENANTS_STORE": f"sqlite:///{tmp_path / 'tenants.db'}"}

    def of(tenant: str, *arguments: str) -> str:
        done = turnwise(*arguments, cwd=TENANTS, environment={**store, "TENANT": tenant})
        assert done.returncode == 0, done.stderr
        return done.stdout

    def chosen(tenant: str, message: str) -> str:
        found: str = json.loads(of(tenant, "select", message, "--json"))["agent"]
        return found

    for tenant in ("garden", "plumber"):
        of(tenant, "agents", "import", f"{tenant}/definitions.yaml")
    assert chosen("plumber", "The sink in the kitchen drips") == "repairs"
    of("garden", "learn", "--from", "garden/cases.jsonl", "--output", str(tmp_path / "learned.yaml"))
    learned = yaml.safe_load((tmp_path / "learned.yaml").read_text("utf-8"))["agents"]["deliveries"]["learned"]
    assert "Leave it with the porter, please" in [each["text"] for each in learned]
    assert chosen("garden", "Is the porter fine with that") == "front"
    of("garden", "agents", "add-example", "deliveries", "Leave it with the porter, please")
    assert chosen("garden", "Is the porter fine with that") == "deliveries"
    assert chosen("plumber", "Is the porter fine with that") == "front", "no other tenant learns from it"
