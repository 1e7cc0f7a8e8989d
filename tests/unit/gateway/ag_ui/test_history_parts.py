"""Parts of messages, read and written."""

import base64
from typing import Any

import pytest
from ag_ui.core import ToolMessage, UserMessage

from turnwise.facts.content import BlobPart, TextPart
from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.ag_ui.messages import parts_of, result_of, result_text

PNG = base64.b64encode(b"png").decode()


def read(*parts: Any) -> tuple[list[Any], list[Any]]:
    skipped: list[Any] = []
    content = UserMessage.model_validate({"id": "1", "role": "user", "content": list(parts)}).content
    return parts_of(content, ("c",), skipped), skipped


def media(kind: str, **source: Any) -> dict[str, Any]:
    return {"type": kind, "source": source, "metadata": {"filename": "f"}}


@pytest.mark.parametrize("kind", ["image", "audio", "video", "document"])
def test_files_are_blobs(kind: str) -> None:
    inside = media(kind, type="data", value=PNG, mimeType="image/png")
    beside = media(kind, type="url", value=f"data:image/png;base64,{PNG}")
    blob = BlobPart(data=b"png", mime_type="image/png", name="f")
    assert read({"type": "text", "text": "see"}, inside, beside) == ([TextPart(text="see"), blob, blob], [])


def test_what_is_elsewhere_is_skipped() -> None:
    far = [media("image", type="url", value="https://example.com/x"), media("image", type="file", value="file-1")]
    assert read(*far) == ([], [("c", 0), ("c", 1)])


@pytest.mark.parametrize(("value", "kind"), [("%%%", "image/png"), (PNG, "no type")])
def test_what_is_no_file_is_a_mistake(value: str, kind: str) -> None:
    with pytest.raises(RequestInvalid) as refused:
        read(media("image", type="data", value=value, mimeType=kind))
    assert refused.value.where == ("body", "c", 0, "source", "value")


@pytest.mark.parametrize(
    ("content", "error", "given", "failed"),
    [
        ('{"a": 1}', None, {"a": 1}, False),
        ("text", None, "text", False),
        ("", "it broke", "it broke", True),
        ("part of it", "it broke", "part of it", True),
        ([{"type": "text", "text": "[1]"}, media("image", type="url", value="https://x")], None, [1], False),
    ],
)
def test_what_a_tool_gave(content: Any, error: str | None, given: Any, failed: bool) -> None:
    message = ToolMessage.model_validate({"id": "1", "role": "tool", "toolCallId": "c", "content": content, "error": error})
    part = result_of(message)
    assert (part.call_id, part.result, part.failed) == ("c", given, failed)


def test_what_a_call_gave_as_text() -> None:
    given: list[Any] = [None, "x", {"a": 1}, [1], True]
    assert [result_text(value) for value in given] == ["", "x", '{"a":1}', "[1]", "true"]
