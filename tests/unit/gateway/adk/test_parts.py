"""Parts of what is said, as the ADK writes them."""

from typing import Any

import pytest

from turnwise.facts.content import (
    ArtifactPart,
    BlobPart,
    Content,
    DataPart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from turnwise.facts.sessions import SessionKey
from turnwise.gateway.adk.events import artifact_uri, from_adk_version, parts_of, to_adk_version

KEY = SessionKey("app", "ada", "s")
CONFIRM = {"tool": "refund", "arguments": {"order": 7}, "call": "c"}


def shown(*parts: Part, partial: bool = False) -> list[Any]:
    found = parts_of(Content(parts=parts), KEY, partial=partial)
    return [part.model_dump(by_alias=True, exclude_none=True) for part in found]


def call(id_: str = "c", tool: str = "look", **known: Any) -> ToolCallPart:
    return ToolCallPart(call_id=id_, tool=tool, **known)


@pytest.mark.parametrize(
    ("part", "written"),
    [
        (TextPart(text="hi"), {"text": "hi"}),
        (ThinkingPart(text="Hm."), {"text": "Hm.", "thought": True}),
        (BlobPart(data=b"\xfb\xff", mime_type="a/b"), {"inlineData": {"data": "-_8=", "mimeType": "a/b"}}),
        (
            ArtifactPart(name="x", version=2, mime_type="a/b", title="t"),
            {
                "fileData": {
                    "fileUri": "artifact://apps/app/users/ada/sessions/s/artifacts/x/versions/1",
                    "mimeType": "a/b",
                    "displayName": "t",
                }
            },
        ),
        (DataPart(data={"a": [1]}), {"text": '{"a":[1]}'}),
        (call(arguments={"a": 1}), {"functionCall": {"id": "c", "name": "look", "args": {"a": 1}}}),
        (call(raw="{broken"), {"functionCall": {"id": "c", "name": "look", "args": {"raw": "{broken"}}}),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_what_each_becomes(part: Part, written: Any) -> None:
    assert shown(part) == [written]


def test_what_is_left_out() -> None:
    assert shown(ThinkingPart(), DataPart(data=1, private=True), UnknownPart(kind="new")) == []
    assert shown(TextPart(text="Which?"), DataPart(data=["a", "b"])) == [{"text": "Which?"}]
    assert shown(TextPart(text="I "), call(raw='{"a'), partial=True) == [{"text": "I "}]


def test_leave_is_asked_for_as_the_adk_does() -> None:
    (said, asked) = shown(TextPart(text="May I?"), call("c-ok", "confirm", arguments=CONFIRM))
    assert said == {"text": "May I?"}
    assert asked["functionCall"] == {
        "id": "c-ok",
        "name": "adk_request_confirmation",
        "args": {
            "originalFunctionCall": {"id": "c", "name": "refund", "args": {"order": 7}},
            "toolConfirmation": {"hint": "May I?", "confirmed": False},
        },
    }


@pytest.mark.parametrize(
    ("result", "failed", "response"),
    [
        ({"a": 1}, False, {"a": 1}),
        ("text", False, {"result": "text"}),
        ([1], False, {"result": [1]}),
        (None, False, {}),
        ("no", True, {"error": "no"}),
    ],
)
def test_results(result: Any, failed: bool, response: Any) -> None:
    part = ToolResultPart(call_id="c", tool="look", result=result, failed=failed)
    assert shown(part) == [{"functionResponse": {"id": "c", "name": "look", "response": response}}]


@pytest.mark.parametrize(
    ("result", "confirmed"), [({"approved": True}, True), ({"approved": False}, False), (True, True), ("?", False)]
)
def test_a_persons_word(result: Any, confirmed: bool) -> None:
    (part,) = shown(ToolResultPart(call_id="c-ok", tool="confirm", result=result))
    assert part["functionResponse"] == {"id": "c-ok", "name": "adk_request_confirmation", "response": {"confirmed": confirmed}}


def test_names_and_numbers_of_artifacts() -> None:
    assert artifact_uri(KEY, "user:a b", 1) == "artifact://apps/app/users/ada/artifacts/user:a b/versions/0"
    assert artifact_uri(KEY, "x", None).endswith("/artifacts/x/versions/latest")
    assert [from_adk_version(to_adk_version(version)) for version in (1, 7)] == [1, 7]
