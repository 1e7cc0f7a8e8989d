from datetime import UTC, datetime, timedelta

from turnwise.facts.content import Content, ToolResultPart, text_content
from turnwise.facts.events import Await
from turnwise.facts.sessions import Head, OpenCall, OpenInvocation, Session
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.runner.message.open_invocations import continuation_of, expired_waits, interrupted_end, is_being_answered

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TREE = AgentTree([AgentCard(name="root"), AgentCard(name="a", parent="root"), AgentCard(name="b", parent="root")])
TEXT = text_content("12345", "user")


def waiting(
    agent: str, wait: str, began: int, *, by: str | None = None, expires: datetime | None = None, tool: bool = False
) -> OpenInvocation:
    kind = Await(id=wait, kind="tool_result" if tool else "reply", expires_at=expires)
    return OpenInvocation(state="waiting", agent=agent, turn=2, began=began, waits=((by or agent, kind),))


def test_a_message_to_an_agent_that_asked_goes_on_with_its_invocation() -> None:
    """A42."""
    head = Head(invocations={"i": waiting("a", "w", 1)})
    found = continuation_of(head, TEXT, "a", TREE)
    assert found is not None
    assert (found.invocation_id, found.agent, found.turn, found.answers) == ("i", "a", 2, "w")


def test_a_message_to_another_agent_leaves_the_wait_open() -> None:
    """A42."""
    head = Head(invocations={"i": waiting("a", "w", 1)})
    assert continuation_of(head, TEXT, "b", TREE) is None


def test_the_newest_question_is_answered_first() -> None:
    head = Head(invocations={"old": waiting("a", "w1", 1), "new": waiting("a", "w2", 5)})
    found = continuation_of(head, TEXT, "a", TREE)
    assert found is not None
    assert found.invocation_id == "new"


def test_a_reply_goes_to_the_question_that_it_says() -> None:
    """A42."""
    head = Head(invocations={"old": waiting("a", "w1", 1), "new": waiting("a", "w2", 5)})
    for answers, invocation in (("w1", "old"), ("w2", "new")):
        found = continuation_of(head, TEXT, "a", TREE, answers=answers)
        assert found is not None
        assert (found.invocation_id, found.answers) == (invocation, answers)
    assert continuation_of(head, TEXT, "a", TREE, answers="w3") is None
    assert continuation_of(head, TEXT, "b", TREE, answers="w1") is None


def test_the_child_that_asked_is_found_through_the_agent_that_holds_the_floor() -> None:
    """A41."""
    head = Head(invocations={"i": waiting("a", "w", 1, by="b")})
    for selected in ("a", "b"):
        found = continuation_of(head, TEXT, selected, TREE)
        assert found is not None
        assert found.agent == "a"


def test_a_plain_message_does_not_answer_a_tool_call() -> None:
    """A42."""
    head = Head(invocations={"i": waiting("a", "call", 1, tool=True)})
    assert continuation_of(head, TEXT, "a", TREE) is None


def test_a_tool_result_goes_on_with_its_call() -> None:
    """A6."""
    head = Head(
        invocations={"i": waiting("a", "call", 1, tool=True)},
        calls={"call": OpenCall(agent="a", invocation_id="i", tool="t")},
    )
    result = Content(role="user", parts=(ToolResultPart(call_id="call", result=1),))
    found = continuation_of(head, result, "a", TREE)
    assert found is not None
    assert (found.invocation_id, found.agent, found.answers) == ("i", "a", None)
    assert continuation_of(head, result, "root", TREE) is None, "who was not chosen does not get the floor (C20)"


def test_waiting_invocations_end_when_expired_when_their_agent_is_gone_or_when_there_are_too_many() -> None:
    """A42, A20. What runs is not theirs to end: an interrupting message does, when its process died."""
    head = Head(
        invocations={
            "expired": waiting("a", "w1", 9, expires=NOW - timedelta(seconds=1)),
            "gone": waiting("zoe", "w2", 8),
            "kept": waiting("b", "w3", 7, expires=NOW + timedelta(seconds=1)),
            "old": waiting("b", "w4", 1),
            "running": OpenInvocation(agent="a", began=10),
        }
    )
    over = {lapse.invocation_id: lapse.reason for lapse in expired_waits(head, TREE, NOW, waits=3)}
    assert over == {"expired": "limit:wait_seconds", "gone": "failed", "old": "limit:waits"}
    assert [(lapse.invocation_id, lapse.reason) for lapse in interrupted_end(head)] == [("running", "cancelled")]


def test_an_invocation_whose_holder_is_closed_to_the_caller_is_not_continued() -> None:
    """C20: the holder of the floor would run again."""
    cards = [
        AgentCard(name="root"),
        AgentCard(name="boss", parent="root", roles=("admin",)),
        AgentCard(name="a", parent="root"),
    ]
    tree = AgentTree(cards)
    plain = Head(invocations={"i": waiting("boss", "w", 1, by="a")})
    call = OpenCall(agent="a", invocation_id="i", tool="t")
    tool = Head(invocations={"i": waiting("boss", "c", 1, by="a", tool=True)}, calls={"c": call})
    result = Content(parts=(ToolResultPart(call_id="c"),))
    for head, message in ((plain, TEXT), (tool, result)):
        assert continuation_of(head, message, "a", tree) is None
        assert continuation_of(head, message, "a", tree, ("user",)) is None
        found = continuation_of(head, message, "a", tree, ("admin",))
        assert found is not None
        assert found.agent == "boss"


def test_who_is_being_answered() -> None:
    """A41: one that waits may have parallel agents at work; what was written last tells whose run holds the session."""

    def session(*, held: bool, last: int) -> Session:
        holder = "x" if held else None
        return Session(app="app", user="ada", id="s", holder=holder, last_sequence=last, created_at=NOW, updated_at=NOW)

    running, waits = OpenInvocation(agent="a", last=3), OpenInvocation(state="waiting", agent="a", last=3)
    assert is_being_answered(session(held=True, last=3), running)
    assert is_being_answered(session(held=True, last=3), waits)
    assert not is_being_answered(session(held=True, last=4), waits)
    assert not is_being_answered(session(held=False, last=3), running)
    assert not is_being_answered(session(held=False, last=3), waits)
    assert not is_being_answered(session(held=True, last=3), running, me="x"), "who asks does not answer it"
