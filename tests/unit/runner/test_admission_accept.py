from typing import Any

import pytest
from pydantic import JsonValue

from turnwise.facts.content import BlobPart, Content, DataPart, TextPart, ToolCallPart, ToolResultPart
from turnwise.facts.errors import EmptyMessage, ForbiddenPart, MessageError, MessageTooLarge
from turnwise.facts.limits import Limits
from turnwise.facts.messages import MessageContext, OfferedTool
from turnwise.runner.admission import checked_context, checked_message

LIMITS = Limits(message_bytes=100, blob_bytes=10, parts=3)


def test_a_text_becomes_content_of_the_user() -> None:
    assert checked_message("hi", LIMITS) == Content(role="user", parts=(TextPart(text="hi"),))


def test_the_role_is_forced_on_a_copy() -> None:
    """A25: the caller's object is untouched."""
    mine = Content(role="agent", parts=(TextPart(text="hi"),))
    assert checked_message(mine, LIMITS).role == "user"
    assert mine.role == "agent"


@pytest.mark.parametrize("empty", ["", "  \n\t", Content(), Content(parts=(TextPart(text=" "),))])
def test_an_empty_message_is_refused(empty: str | Content) -> None:
    """A25."""
    with pytest.raises(EmptyMessage):
        checked_message(empty, LIMITS)


def test_a_tool_call_of_a_user_is_refused() -> None:
    """A25."""
    with pytest.raises(ForbiddenPart, match="pay"):
        checked_message(Content(parts=(ToolCallPart(call_id="1", tool="pay"),)), LIMITS)


@pytest.mark.parametrize(
    "large",
    [
        "x" * 101,
        "é" * 51,
        Content(parts=(TextPart(text="x" * 60), TextPart(text="x" * 60))),
        Content(parts=(DataPart(data=["x" * 100]),)),
        Content(parts=(ToolResultPart(call_id="1", result="x" * 100),)),
        Content(parts=(DataPart(data=["é" * 45]),)),
        Content(parts=(BlobPart(data=b"x" * 11),)),
        Content(parts=tuple(TextPart(text="x") for _ in range(4))),
    ],
)
def test_what_is_too_large_is_refused_and_the_limit_named(large: str | Content) -> None:
    with pytest.raises(MessageTooLarge, match=r"limits\."):
        checked_message(large, LIMITS)


def test_blobs_do_not_count_as_text() -> None:
    assert checked_message(Content(parts=(BlobPart(data=b"x" * 10),)), LIMITS).parts


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_result_that_is_no_json_value_is_refused(number: float) -> None:
    """A25: before it uses up the wait for it."""
    with pytest.raises(MessageError, match="call '1' is no JSON value"):
        checked_message(Content(parts=(ToolResultPart(call_id="1", result={"deep": [number]}),)), LIMITS)


def test_tools_are_checked_before_anything_is_stored() -> None:
    """A25: as all that comes with a message; their size counts as that of its context."""
    fine = MessageContext(tools=(OfferedTool(name="a"),))
    assert checked_context(fine, Limits(message_bytes=1_000)) is fine
    with pytest.raises(MessageError, match="reserved"):
        checked_context(MessageContext(tools=(OfferedTool(name="confirm"),)), Limits())
    with pytest.raises(MessageTooLarge, match=r"limits\.tools"):
        checked_context(fine, Limits(tools=0))
    large = MessageContext(tools=(OfferedTool(name="a", description="d" * 2_000),))
    with pytest.raises(MessageTooLarge, match=r"context has .* limits\.message_bytes"):
        checked_context(large, Limits(message_bytes=1_000))


def test_tools_that_nothing_can_write_are_refused() -> None:
    inner: dict[str, Any] = {}
    for _ in range(400):
        inner = {"not": inner}
    for parameters in ({"type": "object", "$defs": inner}, {"type": "object", "title": "\ud800"}):
        tool = OfferedTool.model_construct(name="a", description="", parameters=parameters)
        with pytest.raises(MessageError, match="context cannot be stored"):
            checked_context(MessageContext.model_construct(tools=(tool,)), Limits())


def nested(depth: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(depth):
        value = [value]
    return value


def test_what_could_not_be_read_again_is_not_taken() -> None:
    """A25: a message like that would be stored, and no turn could read the session any more."""
    for part in (DataPart(data=nested(101)), ToolResultPart(call_id="c", result=nested(101))):
        with pytest.raises(MessageTooLarge, match="nested"):
            checked_message(Content(parts=(part,)), Limits())
    checked_message(Content(parts=(DataPart(data=nested(100)),)), Limits())
    with pytest.raises(MessageTooLarge, match="nested"):
        checked_context(MessageContext(attributes={"a": nested(100)}), Limits())
