"""What an invocation waits for."""

from logs import call, event, result

from turnwise.agents.approval import CONFIRM
from turnwise.facts.callers import Caller
from turnwise.facts.cards import AgentCard
from turnwise.facts.content import ToolCallPart
from turnwise.facts.events import USER, Await
from turnwise.facts.tree import AgentTree
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.shared.waits import open_waits

TREE = AgentTree([AgentCard(name="a")])
USERS, KEEPERS = Redactor(Caller(id="u", user="ann"), TREE), Redactor(Caller(id="a", role="admin"), TREE)
ASKED = event("a", "Which?", awaits=Await(id="w"))
ASKS = ToolCallPart(call_id="k-ok", tool=CONFIRM, arguments={"tool": "pay", "call": "k"}, private=True)
LEAVE = event("a", "May I?", ASKS, awaits=Await(id="k-ok", kind="tool_result"))
LATE = event("a", call("k", number=7), awaits=Await(id="k", kind="tool_result"))


def test_kinds_and_whose_they_are() -> None:
    waits = open_waits([ASKED, LEAVE, LATE])
    assert [(wait.awaited.id, wait.kind, wait.is_for(USERS), wait.is_for(KEEPERS)) for wait in waits] == [
        ("w", "reply", True, True),
        ("k-ok", "confirmation", True, True),
        ("k", "tool_result", False, True),
    ]


def test_what_was_answered_is_no_wait() -> None:
    events = [ASKED, LEAVE, LATE]
    assert open_waits([*events, event(USER, "this", answers="w")])[0].awaited.id == "k-ok"
    assert [wait.awaited.id for wait in open_waits([*events, event(USER, result("k"))])] == ["w", "k-ok"]
