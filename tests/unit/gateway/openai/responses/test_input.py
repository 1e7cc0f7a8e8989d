"""What of an input is new, and what only repeats how the conversation went."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from turnwise.facts.content import DataPart, TextPart, ToolCallPart, ToolResultPart
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.events import Event
from turnwise.gateway.openai.responses.input import compact_items, read_input
from turnwise.gateway.openai.responses.response import CallId, ResponseId

NAME = ResponseId("s", "m", "ann")
EVENT = Event(id="e", author="a", invocation_id="i", created_at=datetime.now(UTC))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **more}


def called(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "look", "arguments": '{"x":1}', **more}


def output(call_id: str, value: Any = "found") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


def test_messages_of_the_user_are_one() -> None:
    told = read_input(
        [user("one"), {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "two"}]}], None
    )
    assert told.message.parts == (TextPart(text="one"), TextPart(text="two"))
    assert (told.past, told.after, told.call, told.instructions) == ((), None, None, None)
    assert told.content == told.message


def test_what_the_caller_wants_goes_in_front() -> None:
    told = read_input(
        [{"role": "system", "content": "In French."}, user("hi"), {"role": "developer", "content": "Briefly."}], "Politely."
    )
    assert told.content.parts == (
        DataPart(name="instructions", data="Politely.\n\nIn French.\n\nBriefly."),
        TextPart(text="hi"),
    )
    assert read_input([user("hi")], " ").instructions is None


def test_what_was_answered_is_past() -> None:
    told = read_input(
        [user("one"), assistant("1"), assistant("2"), called("k"), output("k"), assistant("3"), user("two")], None
    )
    assert [(turn.sent.text, turn.text, [call.call_id for call in turn.calls]) for turn in told.past] == [
        ("one", "1\n2", ["k"]),
        ("", "3", []),
    ]
    assert told.past[0].calls == (ToolCallPart(call_id="k", tool="look", arguments={"x": 1}),)
    assert told.past[1].sent.parts == (ToolResultPart(call_id="k", result="found"),)
    assert told.message.text == "two"


def test_nothing_new_behind_an_answer() -> None:
    told = read_input([user("one"), assistant("1")], None)
    assert (told.message.parts, len(told.past)) == ((), 1)


def test_ids_of_ours_lead_back() -> None:
    ours, call_id = NAME.item(EVENT), NAME.call("k1")
    told = read_input([user("one"), assistant("1", id=ours), user("two")], None)
    assert told.after == NAME
    assert read_input([user("one"), assistant("1", id=ours), user("two"), assistant("2"), user("three")], None).after is None
    assert read_input([{"type": "item_reference", "id": ours}, user("two")], None).after == NAME
    assert read_input([{"id": ours}, user("two")], None).after == NAME
    assert (
        read_input([assistant("1", id=ours), {"type": "reasoning", "id": "rs_1", "summary": []}, user("2")], None).after == NAME
    )
    told = read_input([user("one"), called(call_id), output(call_id)], None)
    assert told.call == CallId("s", "k1", "ann")
    assert told.message.tool_results == (ToolResultPart(call_id="k1", result="found"),)
    assert told.past[0].calls[0].call_id == "k1"


def test_an_output_may_hold_texts_and_files() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
    parts = [{"type": "input_text", "text": "one"}, image, {"type": "input_text", "text": "two"}]
    result, file = read_input([output("k", parts)], None).message.parts
    assert isinstance(result, ToolResultPart)
    assert (result.result, file.kind) == ("one\ntwo", "blob")


def test_what_was_compacted_stands_for_itself() -> None:
    (item,) = compact_items(NAME.id, [user("one"), assistant("1"), user("two")]).output
    told = read_input([item.model_dump(), user("three")], None)
    assert (told.after, [turn.sent.text for turn in told.past], told.message.text) == (None, ["one"], "two\nthree")
    (item,) = compact_items(NAME.id, []).output
    assert read_input([item.model_dump(), user("three")], None).after == NAME


def test_nothing_is_compacted_twice_over() -> None:
    (inner,) = compact_items(NAME.id, []).output
    (item,) = compact_items(None, [inner.model_dump()]).output
    with pytest.raises(RequestInvalid) as refused:
        read_input([item.model_dump()], None)
    assert refused.value.where == ("body", "input", 0, 0, "encrypted_content")


KINDS = st.sampled_from(["user", "message", "input_text", "function_call_output", "compaction", "call_A"])
FIELDS = st.sampled_from(["type", "role", "content", "call_id", "output", "id", "name"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | KINDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(FIELDS, VALUES, max_size=5), max_size=4))
def test_any_items_are_read_or_refused(items: list[dict[str, Any]]) -> None:
    where: tuple[str | int, ...] = ("body", "input")
    try:
        read_input(items, None)
    except RequestInvalid as refused:
        where = refused.where
    assert where[:2] == ("body", "input")
