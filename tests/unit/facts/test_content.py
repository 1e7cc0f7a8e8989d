"""Content and its parts: strict when made, tolerant when read."""

import json

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError

from turnwise.facts.content import (
    ArtifactPart,
    BlobPart,
    Content,
    DataPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    text_content,
)

TEXT = st.text(max_size=20)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
PART = st.one_of(
    st.builds(TextPart, text=TEXT),
    st.builds(BlobPart, data=st.binary(max_size=50), name=st.none() | TEXT),
    st.builds(ArtifactPart, name=TEXT, version=st.none() | st.integers(1, 9)),
    st.builds(ToolCallPart, call_id=TEXT, tool=TEXT, arguments=st.dictionaries(TEXT, VALUE, max_size=2)),
    st.builds(ToolResultPart, call_id=TEXT, result=VALUE, failed=st.booleans()),
    st.builds(DataPart, data=VALUE),
)


@given(st.lists(PART, max_size=5))
@settings(max_examples=80)
def test_content_survives_a_round_trip(parts: list[TextPart]) -> None:
    content = Content(role="user", parts=tuple(parts))
    assert Content.model_validate_json(content.model_dump_json()) == content


def test_text_joins_the_text_parts_and_nothing_else() -> None:
    content = Content(parts=(TextPart(text="one"), DataPart(data="no"), TextPart(text="two")))
    assert content.text == "one\ntwo"
    assert Content().text == ""
    assert text_content("hi", "user") == Content(role="user", parts=(TextPart(text="hi"),))


def test_calls_and_results_are_found_in_order() -> None:
    call, result = ToolCallPart(call_id="1", tool="t"), ToolResultPart(call_id="1", result=3)
    content = Content(parts=(TextPart(text="x"), call, result))
    assert content.tool_calls == (call,)
    assert content.tool_results == (result,)


def test_a_part_of_a_newer_kind_is_kept_whole_and_shown_as_nothing() -> None:
    written = {"role": "agent", "parts": [{"kind": "hologram", "frames": [1, {"x": "y"}]}, {"kind": "text", "text": "hi"}]}
    content = Content.model_validate_json(json.dumps(written))
    assert isinstance(content.parts[0], UnknownPart)
    assert content.text == "hi"
    assert json.loads(content.model_dump_json()) == written


def test_fields_of_a_newer_version_are_kept() -> None:
    written = {"role": "user", "parts": [{"kind": "text", "text": "hi", "language": "en"}], "tone": {"warm": True}}
    content = Content.model_validate_json(json.dumps(written))
    assert json.loads(content.model_dump_json()) == written
    assert json.loads(content.replace(role="agent").model_dump_json()) == {**written, "role": "agent"}


@pytest.mark.parametrize("part", ['{"kind": []}', '{"kind": 3}', "3", '"text"', "{}", '{"kind": "text"}'])
def test_a_part_that_is_none_is_a_validation_error(part: str) -> None:
    with pytest.raises(ValidationError):
        Content.model_validate_json(f'{{"role": "user", "parts": [{part}]}}')


def test_made_in_code_it_is_strict() -> None:
    with pytest.raises(ValidationError):
        TextPart(text=3)  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        TextPart(text="x", txet="y")  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        Content(role="system")  # type: ignore[arg-type]


def test_it_is_frozen() -> None:
    content = text_content("hi")
    with pytest.raises(ValidationError):
        content.role = "user"


def test_with_parts_keeps_the_sender_and_takes_any_iterable() -> None:
    said = Content(role="user", parts=(TextPart(text="a"),))
    assert said.with_parts(part for part in (*said.parts, TextPart(text="b"))).text == "a\nb"
    assert said.with_parts([]) == Content(role="user")
    with pytest.raises(ValidationError):
        said.with_parts(["a"])  # type: ignore[list-item]
