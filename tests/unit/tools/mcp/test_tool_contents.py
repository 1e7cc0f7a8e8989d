import base64
from typing import Any

import pytest
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from tool_play import turn

from turnwise import AgentContext
from turnwise.facts.errors import ToolFailed
from turnwise.ports.tool import ToolCall
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.tools.mcp_toolset import result_to_json

NONE: Any = None
IMAGE = ImageContent(data=base64.b64encode(b"pixel").decode(), mime_type="image/png")


def said(*blocks: ContentBlock, structured: Any = None, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=list(blocks), structured_content=structured, is_error=is_error)


def text(words: str) -> TextContent:
    return TextContent(text=words)


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (said(), None),
        (said(text("one")), "one"),
        (said(text("one"), text("two")), ["one", "two"]),
        (said(text('{"a": 1}'), structured={"a": 1}), {"a": 1}),
        (
            said(ResourceLink(uri="file:///a", name="a", mime_type="text/plain")),
            {"resource": "file:///a", "name": "a", "mime_type": "text/plain"},
        ),
        (
            said(EmbeddedResource(resource=TextResourceContents(uri="file:///a", text="inside"))),
            {"resource": "file:///a", "text": "inside"},
        ),
    ],
)
async def test_contents_become_json(result: CallToolResult, told: Any) -> None:
    assert await result_to_json(result, ToolCall("call-1", {}, NONE), "look") == told


@pytest.mark.parametrize(
    ("blocks", "words"), [((text("no such city"),), "no such city"), ((), "look failed and did not say why")]
)
async def test_an_error_is_a_failure_in_the_servers_words(blocks: tuple[ContentBlock, ...], words: str) -> None:
    with pytest.raises(ToolFailed, match=words):
        await result_to_json(said(*blocks, is_error=True), ToolCall("call-1", {}, NONE), "look")


BLOCKS = (
    text("A pixel"),
    IMAGE,
    AudioContent(data="!", mime_type="audio/wav"),
    EmbeddedResource(resource=BlobResourceContents(uri="file:///b", blob=base64.b64encode(b"bytes").decode())),
)


async def told_in_turn(**options: Any) -> list[Any]:
    told: list[Any] = []

    async def work(context: AgentContext) -> str:
        told.append(await result_to_json(said(*BLOCKS, structured={"a": 1}), ToolCall("call-1", {}, context), "look"))
        told.append(await context.artifacts.load("look_call-1_1") if options else None)
        return "done"

    assert (await turn(work, **options)).text == "done"
    return told


async def test_what_is_no_text_is_kept_as_an_artifact() -> None:
    pieces, artifact = await told_in_turn(artifacts=InMemoryArtifactStore())
    assert pieces == [
        {"a": 1},
        {"artifact": "look_call-1_1", "version": 1, "mime_type": "image/png", "bytes": 5},
        {"note": "Something came that is no valid base64."},
        {
            "resource": "file:///b",
            "artifact": "look_call-1_3",
            "version": 1,
            "mime_type": "application/octet-stream",
            "bytes": 5,
        },
    ]
    assert artifact.data == b"pixel"


async def test_without_a_store_the_model_is_told_what_there_was() -> None:
    pieces, _ = await told_in_turn()
    assert pieces[1]["bytes"] == 5
    assert "no artifact store" in pieces[1]["note"]
