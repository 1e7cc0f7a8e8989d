"""The help desk with a model behind its desks: the command line, real HTTP, and a service that is played."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cli_play import turnwise
from helpdesk_play import HELPDESK
from llm_servers import Answer, FakeOpenAI

KEY = "sk-of-the-test"
CONVERSATION = ("Where is my order A-10412?", "Cancel order A-10420", "y", "how long will that take?")


@pytest.fixture
def service() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(key=KEY) as service:
        yield service


def environment(folder: Path, service: FakeOpenAI) -> dict[str, str]:
    return {
        "HELPDESK_MODEL": "openai:played",
        "OPENAI_BASE_URL": service.url,
        "OPENAI_API_KEY": KEY,
        "HELPDESK_DB": str(folder / "shop.db"),
        "HELPDESK_SESSIONS": str(folder / "sessions.db"),
        "HELPDESK_ARTIFACTS": str(folder / "artifacts"),
        "HELPDESK_NOW": "2026-11-19T10:00",
    }


def said(arguments: str, folder: Path, service: FakeOpenAI, *lines: str) -> str:
    done = turnwise(
        *arguments.split(),
        cwd=HELPDESK,
        stdin="".join(f"{line}\n" for line in lines),
        environment=environment(folder, service),
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def results(body: dict[str, Any]) -> list[str]:
    """What a request says of the calls of tools."""
    return [str(message["content"]) for message in body["messages"] if message["role"] == "tool"]


def test_a_conversation_with_a_tool_a_leave_and_a_transfer(tmp_path: Path, service: FakeOpenAI) -> None:
    """A36, A42, D7: the desks are chosen as without a model; what they do is done in the shop, and only after a yes."""
    service.say(
        Answer(calls=(("find_order", {"order": "A-10412"}),)),
        "It is on its way with UPS and should arrive on Saturday.",
        Answer(calls=(("cancel_order", {"order": "A-10420"}),)),
        Answer("It is cancelled.", calls=(("transfer_to_agent", {"agent": "billing"}),)),
        Answer(calls=(("refunds", {"order": "A-10420"}),)),
        "You get $59.00 back by Tuesday.",
        "Until Tuesday, as I said.",
    )
    shown = said("chat --session s", tmp_path, service, *CONVERSATION)
    assert service.refused == []
    lines = shown.splitlines()
    assert lines[0].startswith("→ orders · strong_intent_match")
    for line in (
        '  · find_order(order="A-10412")',
        "orders: It is on its way with UPS and should arrive on Saturday.",
        'orders: May I call cancel_order with order = "A-10420"?',
        "→ billing · transfer · orders hands over",
        '  · refunds(order="A-10420")',
        "billing: You get $59.00 back by Tuesday.",
        "billing: Until Tuesday, as I said.",
    ):
        assert line in lines, shown
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        assert shop.execute("SELECT status FROM orders WHERE id = 'A-10420'").fetchall() == [("cancelled",)]
        assert shop.execute("SELECT cents FROM refunds WHERE order_id = 'A-10420'").fetchall() == [(5900,)]
    bodies = [asked.body for asked in service.requests]
    assert "1Z40412" in results(bodies[1])[-1]
    assert "$59.00" in results(bodies[5])[-1]
    spoken = [message for message in bodies[4]["messages"] if message["role"] == "assistant"]
    assert spoken == [], "what the orders desk said is no word of the billing desk"
    record = said("sessions show s", tmp_path, service)
    assert "models in all: openai:played · 7 calls · 77 tokens in, 49 out" in record
    assert KEY not in record + shown


def test_a_leave_that_is_refused_changes_nothing(tmp_path: Path, service: FakeOpenAI) -> None:
    """A42: also in another process, after a restart."""
    service.say(Answer(calls=(("find_order", {"order": "A-10420"}), ("cancel_order", {"order": "A-10420"}))))
    said("chat --session s", tmp_path, service, "Cancel order A-10420")
    service.say("Then it stays as it is.")
    shown = said("chat --session s", tmp_path, service, "no, I want it after all")
    assert 'orders: May I call cancel_order with order = "A-10420"?' in shown.splitlines()[0]
    assert "orders: Then it stays as it is." in shown
    assert "I want it after all" in results(service.requests[-1].body)[-1]
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        assert shop.execute("SELECT status FROM orders WHERE id = 'A-10420'").fetchall() == [("processing",)]


def test_every_desk_has_its_place_and_its_tools(tmp_path: Path, service: FakeOpenAI) -> None:
    """The same tree, cards and patterns; the model is named, its key is not."""
    shown = said("check", tmp_path, service)
    assert shown.count("openai:played") == 12
    assert "ok · turnwise.yaml · app helpdesk · 12 agents, 14 patterns" in shown
    assert KEY not in shown
