"""How an invocation is closed on record (A23)."""

from datetime import UTC, datetime

from turnwise.facts.events import Branch, End, StepRecord
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.sessions import Head, OpenCall
from turnwise.runner.record.events import closing_events

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CANCELLED = End(reason="cancelled")


def closed(head: Head, *steps: StepRecord) -> list[tuple[str, str, list[tuple[str, object, bool]], bool]]:
    """Author, branch, results and whether it ends, of every closing event."""
    events = closing_events(SystemIssuer(), head, "i", "clerk", CANCELLED, steps=steps)
    return [
        (
            event.author,
            event.branch,
            [(r.call_id, r.result, r.failed) for r in event.content.tool_results] if event.content else [],
            event.actions.end is not None,
        )
        for event in events
    ]


def test_a_call_that_was_made_has_its_result_and_only_others_have_none() -> None:
    """A23."""
    calls = {id_: OpenCall(agent="a", invocation_id="i", tool="t") for id_ in ("paid", "broken", "never")}
    calls["foreign"] = OpenCall(agent="b", invocation_id="other", tool="t")
    steps = [
        StepRecord(key="1:draft", value="x"),
        StepRecord(key="1:tool#1.0", value={"result": {"sum": 7}, "failed": False}, call="paid"),
        StepRecord(key="1:tool#1.1", value={"result": "No money.", "failed": True}, call="broken"),
        StepRecord(key="1:tool#1.2", value={"result": "It goes out.", "failed": False}, call="never-begun"),
    ]
    assert closed(Head(calls=calls), *steps) == [
        ("a", "", [("paid", {"sum": 7}, False)], False),
        ("a", "", [("broken", "No money.", True)], False),
        ("a", "", [("never", "cancelled", True)], True),
    ]


def test_a_private_call_gets_its_result_in_private_and_the_end_is_told_to_all() -> None:
    """A23, A41."""
    calls = {"c": OpenCall(agent="helper", invocation_id="i", tool="t", branch=Branch("1/>helper#1"))}
    step = StepRecord(key="1/>helper#1:tool#1.0", value={"result": "secret", "failed": False}, call="c")
    assert closed(Head(calls=calls), step) == [
        ("helper", "1/>helper#1", [("c", "secret", False)], False),
        ("clerk", "", [], True),
    ]


def test_an_invocation_without_open_calls_ends_by_the_holder_of_its_floor() -> None:
    assert closed(Head()) == [("clerk", "", [], True)]
