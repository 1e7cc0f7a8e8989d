"""What an agent that thinks with a model did, in lines."""

from datetime import UTC, datetime

import pytest

from turnwise.cli.conversation import ToolCallLines, call_text, failure_text
from turnwise.facts.content import Content, Part, ThinkingPart, ToolCallPart, ToolResultPart
from turnwise.facts.events import Event


def event(*parts: Part) -> Event:
    return Event(
        id="e", author="desk", invocation_id="i", created_at=datetime(2026, 1, 1, tzinfo=UTC), content=Content(parts=parts)
    )


def calling(tool: str, *, id_: str = "c1", private: bool = False, **arguments: str) -> ToolCallPart:
    return ToolCallPart(call_id=id_, tool=tool, arguments=dict(arguments), private=private)


def test_calls_are_a_quiet_line_each_and_failures_say_why() -> None:
    lines = ToolCallLines()
    said = [*lines.of(event(ThinkingPart(text="hm"), calling("status", order="A-1"), calling("stock", id_="c2")))]
    told = [
        *lines.of(
            event(
                ToolResultPart(call_id="c1", tool="status", result={"at": "home"}),
                ToolResultPart(call_id="c2", tool="stock", result="There is no such thing.", failed=True),
            )
        )
    ]
    assert [line.plain for line in said] == ['  · status(order="A-1")', "  · stock()"]
    assert [line.plain for line in told] == ["  · stock failed: There is no such thing."]


def test_what_is_private_is_told_by_what_comes_of_it() -> None:
    lines = ToolCallLines()
    assert [*lines.of(event(calling("transfer_to_agent", private=True, agent="x")))] == []
    assert [*lines.of(event(ToolResultPart(call_id="c1", tool="transfer_to_agent", result="no", failed=True)))] == []


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (calling("find", text="x" * 60), 'find(text="' + "x" * 38 + "…)"),
        (ToolCallPart(call_id="c", tool="find", raw='{"text": '), 'find({"text":)'),
        (calling("fi\x1b[31mnd", text="a\nb\x07"), 'find(text="a\\nb\\u0007")'),
        (ToolCallPart(call_id="c", tool="add", arguments={"a": 1, "b": [2, None]}), "add(a=1, b=[2, null])"),
    ],
)
def test_arguments_are_short_and_safe(part: ToolCallPart, line: str) -> None:
    assert call_text(part) == line


def test_a_failure_may_be_data() -> None:
    assert failure_text(ToolResultPart(call_id="c9", result={"why": "x"}, failed=True)) == 'c9 failed: {"why": "x"}'
