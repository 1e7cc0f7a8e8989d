"""What a session waits for."""

from turnwise.agents.approval import CONFIRM
from turnwise.facts.events import Await
from turnwise.facts.sessions import Head, OpenCall, OpenInvocation
from turnwise.gateway.shared.waits import Wait, waits_of


def test_waits_are_told_by_kind_the_newest_invocation_first() -> None:
    """A42."""
    waits = (("desk", Await(id="w")), ("desk", Await(id="c", kind="tool_result")), ("desk", Await(id="q", kind="tool_result")))
    head = Head(
        invocations={
            "old": OpenInvocation(state="waiting", agent="desk", began=1, waits=waits),
            "new": OpenInvocation(state="waiting", agent="shop", began=9, waits=(("shop", Await(id="v")),)),
        },
        calls={
            "c": OpenCall(agent="desk", invocation_id="old", tool="ship"),
            "q": OpenCall(agent="desk", invocation_id="old", tool=CONFIRM),
        },
    )
    assert waits_of(head) == [
        Wait("new", "v", "reply", "shop", ""),
        Wait("old", "w", "reply", "desk", ""),
        Wait("old", "c", "tool_result", "desk", "ship"),
        Wait("old", "q", "confirmation", "desk", CONFIRM),
    ]
