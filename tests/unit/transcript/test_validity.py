"""What the strictest providers refuse (behaviour D9)."""

import pytest
from logs import call, result

from turnwise.facts.content import BlobPart, Content, DataPart, Part, TextPart, ThinkingPart
from turnwise.transcript.compile import problems


def user(*parts: str | Part) -> Content:
    return Content(role="user", parts=tuple(TextPart(text=part) if isinstance(part, str) else part for part in parts))


def agent(*parts: str | Part) -> Content:
    return user(*parts).replace(role="agent")


SOUND = (
    user("q", BlobPart(data=b"x")),
    agent(ThinkingPart(text="hm"), "I look.", call("k1"), call("k2")),
    user(result("k2"), result("k1"), "and?"),
    agent("a"),
    user("thanks"),
)


def test_what_is_sound_has_no_problems() -> None:
    assert problems(SOUND) == []


WRONG = {
    "nothing": ((), "no message"),
    "begins": ((agent("a"), user("q")), "The first message is the agent's."),
    "ends": ((user("q"), agent("a")), "The last message is the agent's."),
    "side by side": ((user("q"), user("q")), "two of 'user'"),
    "empty": ((user(),), "it is empty"),
    "blank": ((user(" \n"),), "a text is blank"),
    "a user's call": ((user("q", call("k")),), "a part of kind 'tool_call' cannot be the user's"),
    "an agent's file": ((user("q"), agent(BlobPart(data=b"x")), user("q")), "kind 'blob' cannot be the agent's"),
    "data": ((user(DataPart(data=1)),), "kind 'data'"),
    "thinking last": ((user("q"), agent("a", ThinkingPart()), user("q")), "ends with thinking"),
    "a tool's name": ((user("q"), agent(call("k", "a b")), user(result("k", tool="a b"))), "'a b' cannot be a tool's name"),
    "no result": ((user("q"), agent(call("k")), user("q")), "the call 'k' has 0 results"),
    "two results": ((user("q"), agent(call("k")), user(result("k"), result("k"))), "the call 'k' has 2 results"),
    "no call": ((user(result("k")),), "the result 'k' has no call"),
    "late": ((user("q"), agent(call("k")), user("q", result("k"))), "results do not stand first"),
    "another tool": ((user("q"), agent(call("k")), user(result("k", tool="other"))), "names another tool"),
    "twice": ((user("q"), agent(call("k"), call("k")), user(result("k"))), "the call id 'k' is used twice"),
    "twice later": ((*SOUND, agent(call("k1")), user(result("k1"))), "Message 6: the call id 'k1' is used twice"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(case: str) -> None:
    messages, complaint = WRONG[case]
    assert any(complaint in problem for problem in problems(messages)), problems(messages)
