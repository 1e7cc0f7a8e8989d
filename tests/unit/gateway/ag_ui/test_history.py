"""What of a conversation is new, and what was before."""

from typing import Any

from ag_ui.core import Context, RunAgentInput

from turnwise.facts.content import Part, TextPart, ToolResultPart
from turnwise.facts.sessions import Exchange
from turnwise.gateway.ag_ui.messages import (
    instructions_in,
    merged_content,
    new_messages,
    past_turns,
    result_id,
    without_late_results,
    without_repeated,
)


def read(*messages: dict[str, Any]) -> Any:
    numbered = [{"id": str(number), **message} for number, message in enumerate(messages)]
    return RunAgentInput.model_validate({"threadId": "t", "runId": "r", "messages": numbered}).messages


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def calling(call_id: str, text: str | None = None) -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    return {"role": "assistant", "content": text, "toolCalls": [call]}


def gave(call_id: str, content: str = "x", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "toolCallId": call_id, "content": content, **more}


def text(said: str) -> tuple[Part, ...]:
    return (TextPart(text=said),)


def new(*messages: dict[str, Any]) -> list[str]:
    return [merged_content([parts]).text or str(parts[0]) for parts in new_messages(read(*messages)).new]


def test_what_is_behind_the_assistant_is_new() -> None:
    assert new(user("a"), {"role": "assistant", "content": "b"}, user("c"), user(" "), user("d")) == ["c", "d"]
    assert new(user("a"), {"role": "assistant", "content": "b"}) == []
    assert new({"role": "system", "content": "s"}, user("a"), {"role": "reasoning", "content": "hm"}) == ["a"]


def test_what_our_own_tools_gave_is_not_new_when_it_comes_back() -> None:
    ours = gave("k", id=result_id("k"))
    assert new(user("a"), calling("k"), ours, user("b")) == ["b"]
    (result,) = new_messages(read(user("a"), calling("k"), gave("k"))).new
    assert result == (ToolResultPart(call_id="k", result="x"),)


def test_the_past_is_told_in_exchanges() -> None:
    past = past_turns(read(user("a"), calling("k", "so"), gave("k"), {"role": "assistant", "content": "b"}, user("new")))
    assert [(turn.sent.text, turn.text, [call.call_id for call in turn.calls]) for turn in past] == [
        ("a", "so", ["k"]),
        ("", "b", []),
    ]
    assert past[1].sent.tool_results[0].result == "x"


def test_files_of_the_past_that_cannot_be_read_are_left_out() -> None:
    broken = {"type": "image", "source": {"type": "data", "value": "%", "mimeType": "image/png"}}
    (turn,) = past_turns(read(user([{"type": "text", "text": "a"}, broken]), {"role": "assistant", "content": "b"}))
    assert turn.sent.parts == text("a")


def test_instructions_and_context() -> None:
    messages = read({"role": "system", "content": "s"}, {"role": "developer", "content": "d"}, user("a"))
    context = [Context(description="Page", value="Cart"), Context(description="", value="bare")]
    assert instructions_in(messages, context) == ["s", "d", "Page: Cart", "bare"]


def test_what_was_heard_and_not_answered_is_not_asked_again() -> None:
    heard = [Exchange(message="a"), Exchange(message="b")]
    assert without_repeated([text("b"), text("c")], heard, rest=False) == [text("c")]
    assert without_repeated([text("a"), text("b"), text("c")], heard, rest=False) == [text("c")]
    assert without_repeated([text("a"), text("c")], heard, rest=False) == [text("a"), text("c")]
    # Said once more on purpose.
    assert without_repeated([text("b")], heard, rest=False) == [text("b")]
    assert without_repeated([text("b"), text("b")], heard, rest=False) == [text("b")]
    assert without_repeated([text("b")], heard, rest=True) == []
    long = "x" * 400
    assert without_repeated([text(long), text("c")], [Exchange(message=long[:300])], rest=False) == [text("c")]


def test_what_nobody_waits_for() -> None:
    told: list[tuple[Part, ...]] = [(ToolResultPart(call_id="k"),), (ToolResultPart(call_id="l"),), text("a")]
    assert without_late_results(told, {"k"}) == ([told[0], told[2]], ["l"])
