"""What of a conversation goes out."""

import itertools

from hypothesis import given, strategies as st

from turnwise.facts.content import (
    ArtifactPart,
    BlobPart,
    Content,
    DataPart,
    Part,
    Seal,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from turnwise.models.outgoing import outgoing

HERE, THERE = Seal(provider="here", data={"signature": "s"}), Seal(provider="there", data={"signature": "s"})
PARTS: list[Part] = [
    TextPart(text="words", seal=THERE),
    TextPart(text=""),
    ThinkingPart(text="mine", seal=HERE),
    ThinkingPart(text="theirs", seal=THERE),
    ThinkingPart(text="nobody's"),
    ToolCallPart(call_id="c", tool="t", seal=THERE),
    ToolResultPart(call_id="c"),
    BlobPart(data=b"x", mime_type="image/png"),
    ArtifactPart(name="plan.pdf"),
    DataPart(data=1),
]


def said(*parts: Part) -> Content:
    return Content(role="agent", parts=parts)


def asked(*parts: Part) -> Content:
    return Content(role="user", parts=parts)


def test_only_its_own_seals_and_thoughts() -> None:
    assert outgoing([said(*PARTS[:6])], "here") == [
        said(TextPart(text="words"), ThinkingPart(text="mine", seal=HERE), ToolCallPart(call_id="c", tool="t"))
    ]


def test_thinking_that_came_in_the_text_is_of_no_more_use() -> None:
    """Services ask for it not to be sent again; it is not signed, and costs tokens."""
    assert outgoing([said(ThinkingPart(text="mine", seal=Seal(provider="here", data={"id": "content"})))], "here") == []


def test_files_by_name() -> None:
    blob, artifact = PARTS[7], ArtifactPart(name="a1", title="The plan")
    assert outgoing([asked(blob, artifact)], "here") == [asked(blob, TextPart(text="[file: The plan]"))]
    assert outgoing([said(blob, artifact)], "here") == [
        said(TextPart(text="[file: image/png]"), TextPart(text="[file: The plan]"))
    ]


def test_what_becomes_neighbours_is_one_with_results_first() -> None:
    messages = [asked(TextPart(text="a")), said(PARTS[4]), asked(PARTS[9]), asked(TextPart(text="b"), PARTS[6])]
    assert outgoing(messages, "here") == [asked(PARTS[6], TextPart(text="a"), TextPart(text="b"))]


contents = st.builds(Content, role=st.sampled_from(["user", "agent"]), parts=st.lists(st.sampled_from(PARTS)).map(tuple))


@given(st.lists(contents))
def test_sides_take_turns_and_always_say_something(messages: list[Content]) -> None:
    sent = outgoing(messages, "here")
    assert all(content.parts for content in sent)
    assert all(one.role != other.role for one, other in itertools.pairwise(sent))
    assert outgoing(sent, "here") == sent
