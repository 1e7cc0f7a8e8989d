import pytest

from turnwise.facts.content import BlobPart, Content, DataPart, TextPart, ToolCallPart, ToolResultPart
from turnwise.facts.errors import EmptyMessage, ForbiddenPart, MessageError, MessageTooLarge
from turnwise.facts.limits import Limits
from turnwise.runner.accept import incoming

LIMITS = Limits(message_bytes=100, blob_bytes=10, parts=3)


def test_a_text_becomes_content_of_the_user() -> None:
    assert incoming("hi", LIMITS) == Content(role="user", parts=(TextPart(text="hi"),))


def test_the_role_is_forced_on_a_copy() -> None:
    """A25: the caller's object is untouched."""
    mine = Content(role="agent", parts=(TextPart(text="hi"),))
    assert incoming(mine, LIMITS).role == "user"
    assert mine.role == "agent"


@pytest.mark.parametrize("empty", ["", "  \n\t", Content(), Content(parts=(TextPart(text=" "),))])
def test_an_empty_message_is_refused(empty: str | Content) -> None:
    """A25."""
    with pytest.raises(EmptyMessage):
        incoming(empty, LIMITS)


def test_a_tool_call_of_a_user_is_refused() -> None:
    """A25."""
    with pytest.raises(ForbiddenPart, match="pay"):
        incoming(Content(parts=(ToolCallPart(call_id="1", tool="pay"),)), LIMITS)


@pytest.mark.parametrize(
    "large",
    [
        "x" * 101,
        "é" * 51,
        Content(parts=(TextPart(text="x" * 60), TextPart(text="x" * 60))),
        Content(parts=(DataPart(data=["x" * 100]),)),
        Content(parts=(ToolResultPart(call_id="1", result="x" * 100),)),
        Content(parts=(BlobPart(data=b"x" * 11),)),
        Content(parts=tuple(TextPart(text="x") for _ in range(4))),
    ],
)
def test_what_is_too_large_is_refused_and_the_limit_named(large: str | Content) -> None:
    with pytest.raises(MessageTooLarge, match=r"limits\."):
        incoming(large, LIMITS)


def test_blobs_do_not_count_as_text() -> None:
    assert incoming(Content(parts=(BlobPart(data=b"x" * 10),)), LIMITS).parts


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_result_that_is_no_json_value_is_refused(number: float) -> None:
    """A25: before it uses up the wait for it."""
    with pytest.raises(MessageError, match="call '1' is no JSON value"):
        incoming(Content(parts=(ToolResultPart(call_id="1", result={"deep": [number]}),)), LIMITS)
